"""Delivery on Kafka: ordered dispatch per key, transactional lanes, state, dead letters, timers.

The stream knows nothing about decisions; a role gives it a `Handler` and a `StateFormat`.
"""

from turnstream.stream.handler import (
    DeadLetter,
    DeadLetterReason,
    ForAnotherRole,
    Handled,
    Handler,
    LaneClosing,
    LaneContext,
    Publication,
    Record,
    Rejected,
    Stages,
    StateFormat,
    StateTooNew,
    StateUnreadable,
    TimerDue,
    UnknownSchema,
    concluded,
)
from turnstream.stream.observer import NullObserver, Observer
from turnstream.stream.progress import Progress, ProgressFormat
from turnstream.stream.settings import Security, StreamSettings

__all__ = [
    "DeadLetter",
    "DeadLetterReason",
    "ForAnotherRole",
    "Handled",
    "Handler",
    "LaneClosing",
    "LaneContext",
    "NullObserver",
    "Observer",
    "Progress",
    "ProgressFormat",
    "Publication",
    "Record",
    "Rejected",
    "Security",
    "Stages",
    "StateFormat",
    "StateTooNew",
    "StateUnreadable",
    "StreamSettings",
    "TimerDue",
    "UnknownSchema",
    "concluded",
]
