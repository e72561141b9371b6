"""Keys of providers: read at each use, never kept, never repeated in an error."""

from turnstream.config.secrets import SecretRef, SecretUnavailable
from turnstream.core.ports import DeciderRefused


def key_of(reference: SecretRef | None) -> str | None:
    """Read a key; None where none is configured.

    Raises:
        DeciderRefused: it cannot be read, or is no header's value.
    """
    if reference is None:
        return None
    try:
        key = reference.resolve()
    except SecretUnavailable as error:
        raise DeciderRefused(str(error)) from None
    if not key.isascii() or not key.isprintable():
        # A client's own error would repeat the value.
        raise DeciderRefused(f"{reference}: expected printable ASCII")
    return key
