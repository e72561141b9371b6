{{/* What every pod of this chart has in common, whatever it runs. */}}
{{- define "turnstream.pod" -}}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
# Variables of services named turnstream-* would look like overrides of the configuration.
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "turnstream.container" -}}
{{- with .Values.image }}
image: {{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
imagePullPolicy: {{ .pullPolicy }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Mounts and volumes; `files` are the secret files of the pod. */}}
{{- define "turnstream.mounts" -}}
- {name: config, mountPath: /etc/turnstream, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range $index, $file := .files }}
- {name: secret-{{ $index }}, mountPath: {{ $file.mountPath | quote }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "turnstream.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- range $index, $file := .files }}
- name: secret-{{ $index }}
  secret: {secretName: {{ $file.secretName | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
