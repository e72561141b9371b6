"""Calls that do not carry what was asked for: found, told to those who must act, and not made.

A call's arguments are compared three times (:mod:`turnstream.core.carried`): with the model's
before the call is begun (`gated`), with what leaves at its first byte (`sent`), with what the tool
says that it used (`used`). A difference is a fault of ours, or of something between us and the
tool. It is never retried, since it would be there again. What is found before the first byte has
had no effect for certain; what is found afterwards leaves the outcome of a write unknown, and the
tool is then not asked whether the call was carried out: it was another one. An attempt that does
not leave says nothing of those before it, which went out as they were asked for: where it is not
known what became of these, the tool is asked.
"""

import copy
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import orjson
import structlog
from pydantic import JsonValue

from turnstream.core.carried import (
    declared_part,
    differences,
    hash_of,
    undeclared_changes,
)
from turnstream.core.definitions import Tool
from turnstream.core.ports import ToolCall, ToolReply
from turnstream.core.publications import ActionEvent, CallPayload
from turnstream.core.ruleset import Ruleset
from turnstream.core.used_arguments import unlike_used
from turnstream.metrics import Metrics
from turnstream.metrics.catalogue import AlteredAt
from turnstream.tools.errors import ARGUMENTS_ALTERED, failed

log = structlog.get_logger(__name__)

_PATHS: Final = 10
"""Most places that are logged of one call; arguments may have any number of them."""

_WORDS: Final[Mapping[AlteredAt, str]] = {
    "gated": "the arguments differ from the model's; nothing was called",
    "sent": "the request does not carry the call's arguments",
    "used": "the tool says that it used something else than the call's arguments",
}


class AlteredError(Exception):
    """What is about to leave is not what the call asked for."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        super().__init__()
        self.paths = paths


class Alterations:
    """Compares, counts and logs."""

    def __init__(self, ruleset: Ruleset, *, metrics: Metrics) -> None:
        """Prepare.

        Args:
            ruleset: the live catalog.
            metrics: where altered calls are counted.
        """
        self._ruleset = ruleset
        self._metrics = metrics

    def before(
        self, action: ActionEvent, call: CallPayload, arguments: Mapping[str, JsonValue]
    ) -> ToolReply | None:
        """Whether a call's arguments are the model's, but for the changes that are declared.

        One that was decided with another catalog is not compared: its changes are declared there.

        Returns:
            The end of the call where they are not.
        """
        given = call.model_arguments_json
        if given is None or action.versions.decision_version != self._ruleset.decision_version:
            return None
        paths = undeclared_changes(
            given,
            arguments,
            tool=call.tool,
            provenance=call.provenance,
            ruleset=self._ruleset,
        )
        if not paths:
            return None
        return self._told(call.tool, action.action_id, "gated", paths)

    def watched(self, call: ToolCall) -> ToolCall:
        """The same call, which raises `AlteredError` where something else is about to leave.

        Its arguments are a copy: a function may well sort or empty what it was given, and what is
        compared afterwards must be what was asked for.
        """
        sending = call.sending

        def compared(carried: Mapping[str, JsonValue]) -> None:
            paths = differences(call.arguments, carried)
            if paths:
                raise AlteredError(paths)
            sending(carried)

        return replace(call, arguments=copy.deepcopy(dict(call.arguments)), sending=compared)

    def unsent(self, call: ToolCall, altered: AlteredError) -> ToolReply:
        """The reply to a call that did not leave."""
        return self._told(call.tool, call.idempotency_key, "sent", altered.paths)

    def after(self, call: ToolCall, reply: ToolReply, *, tool: Tool) -> ToolReply:
        """A reply as it stands when what was sent and what was used have been compared."""
        wanted = hash_of(call.arguments)
        stage: AlteredAt = "used"
        paths: tuple[str, ...] = ()
        if reply.body_hash is not None and reply.body_hash != wanted:
            # A binding that does not say what it sends before it does.
            stage, paths = "sent", ("",)
        elif reply.used is not None:
            paths = unlike_used(
                call.arguments, reply.used, schema=tool.input_schema, key=call.idempotency_key
            )
        elif reply.used_hash not in (None, wanted, _as_it_came(call.arguments)):
            paths = ("",)
        if not paths:
            return reply
        told = self._told(call.tool, call.idempotency_key, stage, paths)
        undone = reply.error_code is not None and not reply.outcome_unknown
        return replace(
            told,
            outcome_unknown=tool.effect == "write" and not undone,
            body_hash=reply.body_hash,
            used_hash=reply.used_hash,
        )

    def _told(self, tool: str, action_id: str, stage: AlteredAt, paths: Iterable[str]) -> ToolReply:
        definition = self._ruleset.catalog.tools.get(tool)
        schema = definition.input_schema if definition is not None else {}
        places = list(dict.fromkeys(declared_part(path, schema) or "/" for path in paths))
        self._metrics.tool_arguments_altered(tool, stage=stage)
        log.error(
            "a call does not carry what was asked for",
            tool=tool if definition is not None else None,
            action_id=action_id,
            stage=stage,
            paths=places[:_PATHS],
        )
        return failed(ARGUMENTS_ALTERED, _WORDS[stage])


def _as_it_came(arguments: Mapping[str, JsonValue]) -> str:
    """The hash that a tool makes of compact JSON that it does not sort."""
    return hashlib.sha256(orjson.dumps(dict(arguments))).hexdigest()
