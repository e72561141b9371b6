"""What an error of Pydantic AI means: try again, or tell the operator."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UnexpectedModelBehavior,
    UserError,
)

from turnstream.core.ports import DeciderRefused, DeciderUnavailable
from turnstream.models.refusals import (
    MESSAGE_CHARACTERS,
    NO_KEY,
    NO_MODEL,
    NO_QUOTA,
    PASSING,
    REDIRECTS,
    REFUSALS,
    TAKES_NO_TOOLS,
    problem,
    says_no_tools,
)
from turnstream.models.transport import ToolsRefused, unavailable, unread
from turnstream.plain_http import behind, why_broken

_UNSUPPORTED_TOP_P: Final = re.compile(
    r"top_p['\"`]?(?: parameter)? is (?:not supported|unsupported)"
    r"|unsupported parameter[^.]{0,20}top_p"
    r"|does(?: not|n't) support (?:the )?(?:parameter )?['\"`]?top_p",
    re.IGNORECASE,
)
_WRONG_VALUE: Final = re.compile(r"\binvalid\b|\bvalues?\b|\bboth\b", re.IGNORECASE)
"""In a message about a value, or about two parameters at once."""
_REDIRECTS: Final = range(300, 400)
_CLIENT_ERRORS: Final = range(400, 500)


def failure_of(error: Exception) -> Exception:
    """The error of a port that an error of a provider's library is.

    Anything that is not known - a body that cannot be read, a library's own slip on it - is a reply
    that cannot be read: it passes, or the attempts end.
    """
    if (own := _own(error)) is not None:
        return own
    if isinstance(error, ModelTimeoutError | TimeoutError):
        return TimeoutError("no reply in time")
    if isinstance(error, UserError | AssertionError):
        return DeciderRefused(f"the request cannot be made: {type(error).__name__}")
    if isinstance(error, ModelContextWindowExceededError):
        return DeciderRefused("the conversation is longer than the model takes")
    if _redirected(error):
        return DeciderRefused(REDIRECTS)
    if isinstance(error, ModelConnectionError):
        broken = f"the connection broke ({why_broken(error)})"
        return unavailable(broken, retry_after_seconds=error.retry_after)
    if isinstance(error, ModelAPIError) and _is_lasting(error):
        refused = ToolsRefused if refuses_tools(error) else DeciderRefused
        return refused(_problem(error))
    no_json = any(isinstance(one, json.JSONDecodeError) for one in behind(error))
    if isinstance(error, ModelAPIError) and not no_json:
        status = error.status_code if isinstance(error, ModelHTTPError) else "an error"
        return unavailable(f"the provider replied {status}", retry_after_seconds=error.retry_after)
    return unread(error, replied=isinstance(error, UnexpectedModelBehavior))


def refuses_top_p(error: Exception) -> bool:
    """Whether a provider says that it does not know the parameter; a wrong value is another error.

    Azure may leave out `code`, `param` or both; what is there must not say something else, and what
    is missing the message has to say.
    """
    if not isinstance(error, ModelHTTPError) or error.status_code not in REFUSALS:
        return False
    body = _inner(error.body)
    code, param = body.get("code"), body.get("param")
    if param not in (None, "", "top_p") or code in ("unsupported_value", "invalid_value"):
        return False
    if param and code == "unsupported_parameter":
        return True
    message = message_of(error.body)
    return _UNSUPPORTED_TOP_P.search(message) is not None and _WRONG_VALUE.search(message) is None


def refuses_tools(error: Exception) -> bool:
    """Whether a provider says in so many words that it takes no tools."""
    return (
        isinstance(error, ModelHTTPError)
        and error.status_code in REFUSALS
        and says_no_tools(message_of(error.body))
    )


def message_of(body: object) -> str:
    """The message of an error's body, for looking into."""
    message = _inner(body).get("message") if isinstance(body, Mapping) else body
    return message[:MESSAGE_CHARACTERS] if isinstance(message, str) else ""


def _is_lasting(error: ModelAPIError) -> bool:
    if isinstance(error, ModelRateLimitError | ModelUnavailableError | ModelServerError):
        return False
    if isinstance(error, ModelRequestRejectedError | ModelQuotaExceededError):
        return True
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    return status in _CLIENT_ERRORS and status not in PASSING


def _own(error: BaseException | None) -> DeciderUnavailable | None:
    """An error of ours, raised below a library that made one of its own of it."""
    while error is not None and not isinstance(error, DeciderUnavailable):
        error = error.__cause__
    return error


def _redirected(error: BaseException | None) -> bool:
    """Whether a redirect is behind an error; some libraries tell it only by what caused theirs."""
    while error is not None:
        for name in ("status_code", "code"):
            status = getattr(error, name, None)
            if isinstance(status, int) and status in _REDIRECTS:
                return True
        error = error.__cause__
    return False


def _problem(error: ModelAPIError) -> str:
    what = None
    if isinstance(error, ModelAuthenticationError):
        what = NO_KEY
    elif isinstance(error, ModelNotFoundError):
        what = NO_MODEL
    elif isinstance(error, ModelQuotaExceededError):
        what = NO_QUOTA
    elif refuses_tools(error):
        what = TAKES_NO_TOOLS
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    words = (error.provider_error_code, error.provider_error_type, _inner(error.body).get("param"))
    return problem(status, *words, what=what)


def _inner(body: object) -> Mapping[str, Any]:
    """The object that holds code and message: some providers wrap it, some libraries unwrap it."""
    if not isinstance(body, Mapping):
        return {}
    for name in ("error", "Error"):
        if isinstance(body.get(name), Mapping):
            inner: Mapping[str, Any] = body[name]
            return inner if "message" in inner else {**inner, "message": inner.get("Message", "")}
    return body
