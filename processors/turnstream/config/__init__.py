"""The deployment's configuration: ``turnstream.yaml`` with overrides from the environment.

Every key can be set by an environment variable: ``TURNSTREAM_`` and the path, its parts joined by
two underscores (``TURNSTREAM_KAFKA__BOOTSTRAP_SERVERS=broker:9092``). Lists and mappings are
written as JSON there. Unknown keys are refused in both places. Secrets are given by reference only.
Durations end in ``_seconds`` or ``_ms``. Relative paths are relative to the configuration file.
"""

from turnstream.config.connectors import ConnectorSettings
from turnstream.config.decisions import DecisionsSettings, StepCriteria
from turnstream.config.kafka import KafkaSettings
from turnstream.config.loading import (
    ConfigurationError,
    Settings,
    load_settings,
    near_variables,
)
from turnstream.config.secrets import SecretRef, SecretUnavailable
from turnstream.config.sections import (
    LOGICAL_TOPICS,
    AskingSettings,
    CatalogRulesSettings,
    ClassifierSettings,
    ClassifySettings,
    DeciderSettings,
    DecideSettings,
    EmbeddedClassifierSettings,
    ExecuteSettings,
    MetricsSettings,
    PythonSettings,
    RawSinkSettings,
    RegistrySettings,
    ShadowSettings,
    StreamOptions,
    TopicSettings,
    TurnsSettings,
)

__all__ = [
    "LOGICAL_TOPICS",
    "AskingSettings",
    "CatalogRulesSettings",
    "ClassifierSettings",
    "ClassifySettings",
    "ConfigurationError",
    "ConnectorSettings",
    "DecideSettings",
    "DeciderSettings",
    "DecisionsSettings",
    "EmbeddedClassifierSettings",
    "ExecuteSettings",
    "KafkaSettings",
    "MetricsSettings",
    "PythonSettings",
    "RawSinkSettings",
    "RegistrySettings",
    "SecretRef",
    "SecretUnavailable",
    "Settings",
    "ShadowSettings",
    "StepCriteria",
    "StreamOptions",
    "TopicSettings",
    "TurnsSettings",
    "load_settings",
    "near_variables",
]
