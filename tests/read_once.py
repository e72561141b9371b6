"""What every client reads from the disk as it is made, read once for all tests.

Clients of providers load the machine's authorities, 30 ms each, though no test speaks TLS with one,
and boto3 parses the same megabytes of JSON for each client. Tests make thousands of them.
"""

import ssl
from functools import cache
from typing import Any

import certifi
import httpcore2
from botocore import loaders

AUTHORITIES = certifi.where()


def install() -> None:
    """Let all clients share what they only read."""
    if getattr(ssl.create_default_context, "shared", False):
        return
    made = ssl.create_default_context
    shared = cache(lambda: made(cafile=AUTHORITIES))

    def create_default_context(*arguments: Any, **options: Any) -> ssl.SSLContext:
        given = {name: value for name, value in options.items() if value is not None}
        if not arguments and given == {"cafile": AUTHORITIES}:
            return shared()
        return made(*arguments, **options)

    create_default_context.shared = True  # type: ignore[attr-defined]
    ssl.create_default_context = create_default_context
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
    read = loaders.JSONFileLoader.load_file
    parsed = cache(lambda path: read(loaders.JSONFileLoader(), path))
    loaders.JSONFileLoader.load_file = lambda _self, path: parsed(path)
