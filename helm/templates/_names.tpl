{{/* Short enough that `<name>-<role>-<ordinal>` stays within the 63 characters of a host name. */}}
{{- define "turnstream.name" -}}
{{- $chart := default .Chart.Name .Values.nameOverride -}}
{{- $name := contains $chart .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $chart) -}}
{{- $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "turnstream.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "turnstream.labels" -}}
{{ include "turnstream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "turnstream.config" -}}
turnstream.yaml: |
  {{- .Values.config | toYaml | nindent 2 }}
{{- end }}
