"""Amazon Bedrock's Converse.

AWS's library works in threads, each for one request; a request that is given up ends with its
time-out there.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.loaders import create_loader
from botocore.session import get_session
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.providers.bedrock import BedrockProvider

from turnstream.config.connectors import BedrockSettings
from turnstream.core.errors import DefinitionError
from turnstream.core.ports import ReplyUnusable
from turnstream.models.pydantic_ai_models import PydanticAITransport, Way
from turnstream.models.secrets_of_models import key_of
from turnstream.models.transport import OUT_OF_FORM, ModelReply, Prompt, ToolForm

_FORM: Final = "bedrock/converse"

_DESCRIPTIONS: Final = create_loader()
"""AWS's descriptions of its services, read once; each session would else read them again."""

_CONNECT_SECONDS: Final = 5.0
"""Longest wait for a connection."""

_CONNECTIONS: Final = 40
"""As many as the threads that requests are made in."""

_PROFILE: Final[dict[str, Any]] = {
    "json_schema_transformer": None,
    # With it, parameters are dropped without a word.
    "bedrock_disallows_sampling_settings": False,
    "may_tokenize_special_tokens_in_content": False,
}


class _FreshKeys(RefreshableCredentials):  # type: ignore[misc]
    """Reads the keys for each signature; nothing of them is kept."""

    def __init__(self, settings: BedrockSettings) -> None:
        self._settings = settings
        self.method = "turnstream"

    def get_frozen_credentials(self) -> Any:
        from botocore.credentials import ReadOnlyCredentials  # noqa: PLC0415 - untyped

        return ReadOnlyCredentials(
            key_of(self._settings.access_key_id),
            key_of(self._settings.secret_access_key),
            key_of(self._settings.session_token),
        )


class BedrockTransport:
    """Speaks to one model.

    AWS's client is made with the first request: where no keys are configured it asks the host for
    its role's, which is a request of its own.
    """

    def __init__(self, settings: BedrockSettings, session: Any) -> None:
        self._settings = settings
        self._session = session
        self._making = asyncio.Lock()
        self._client: Any = None
        self._made: PydanticAITransport | None = None

    @property
    def form(self) -> str:
        """Provider and wire."""
        return _FORM

    @property
    def place(self) -> str:
        """Address or region."""
        return self._settings.base_url or self._settings.region

    @property
    def model(self) -> str:
        """The configured name."""
        return self._settings.model

    async def reply(self, prompt: Prompt, tools: Sequence[ToolForm]) -> ModelReply:
        """Ask once; see `Transport.reply`."""
        async with self._making:
            if self._made is None:
                self._made = await asyncio.to_thread(self._make)
        return await self._made.reply(prompt, tools)

    async def close(self) -> None:
        """Release connections."""
        if self._client is not None:
            self._client.close()

    def _make(self) -> PydanticAITransport:
        self._client = _client(self._settings, self._session)
        return _transport(self._settings, self._client)


def bedrock_transport(settings: BedrockSettings) -> BedrockTransport:
    """Speak to the model of a section.

    Raises:
        DefinitionError: AWS has no such region for Bedrock.
    """
    session = get_session()
    session.register_component("data_loader", _DESCRIPTIONS)
    known = {
        region
        for partition in session.get_available_partitions()
        for region in session.get_available_regions("bedrock", partition_name=partition)
    }
    if settings.region not in known:
        raise DefinitionError(
            f"region: Bedrock has none called {settings.region!r}; known are "
            f"{', '.join(sorted(known))}"
        )
    return BedrockTransport(settings, session)


def _transport(settings: BedrockSettings, client: Any) -> PydanticAITransport:
    given = settings.settings.model_dump(exclude_unset=True, exclude_none=True)
    if "stop" in given:
        given["stop_sequences"] = list(given.pop("stop"))
    additional = given.pop("additional", None)
    if additional:
        given["bedrock_additional_model_requests_fields"] = additional
    profile: Any = _PROFILE
    return PydanticAITransport(
        Way(
            form=_FORM,
            place=settings.base_url or settings.region,
            model=BedrockConverseModel(
                settings.model, provider=BedrockProvider(bedrock_client=client), profile=profile
            ),
            name=settings.model,
            settings={**given, "max_tokens": settings.max_tokens},
            timeout_seconds=settings.timeout_seconds,
            stream=settings.stream,
            marks_failures=True,
            check_key=lambda: _check(settings),
        )
    )


def _client(settings: BedrockSettings, session: Any) -> Any:
    if settings.access_key_id is not None:
        # botocore has no public way to hand them over.
        session._credentials = _FreshKeys(settings)  # noqa: SLF001
    client = boto3.Session(botocore_session=session, region_name=settings.region).client(
        "bedrock-runtime",
        endpoint_url=settings.base_url,
        config=Config(
            read_timeout=settings.timeout_seconds,
            connect_timeout=min(_CONNECT_SECONDS, settings.timeout_seconds),
            retries={"total_max_attempts": 1},
            max_pool_connections=_CONNECTIONS,
            proxies={},
        ),
    )
    client.meta.events.register("after-call.bedrock-runtime.Converse", _with_inputs)
    return client


def _with_inputs(parsed: Any, **_: Any) -> None:
    """Give calls without arguments or id empty ones: the library below cannot do without."""
    content = parsed.get("output", {}).get("message", {}).get("content", ())
    for block in content:
        if block.get("toolUse", {}).get("type"):
            # One of AWS's own tools, which nobody was given; the library passes some over.
            raise ReplyUnusable(f"{OUT_OF_FORM} (toolUse.type)")
        if "toolUse" in block:
            block["toolUse"].setdefault("input", None)
            block["toolUse"].setdefault("toolUseId", "")


def _check(settings: BedrockSettings) -> None:
    for reference in (settings.access_key_id, settings.secret_access_key, settings.session_token):
        key_of(reference)
