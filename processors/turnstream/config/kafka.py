"""The section `kafka`: how every client reaches the cluster."""

import re
import ssl
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from turnstream.config.secrets import SecretRef, SecretUnavailable
from turnstream.config.section import Section

_SERVER: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?", re.ASCII)


class KafkaSettings(Section):
    """How every client reaches the cluster."""

    bootstrap_servers: str = Field(default="127.0.0.1:9092", min_length=1)
    """Comma-separated ``host:port``."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: SecretRef | None = None
    ssl_cafile: Path | None = None
    """Certificate authorities to trust; the system's when not given."""
    ssl_certfile: Path | None = None
    """Client certificate, with `ssl_keyfile`."""
    ssl_keyfile: Path | None = None
    check_crcs: bool = True
    """False only for a broker that writes wrong checksums, as the embedded one does."""

    @field_validator("bootstrap_servers")
    @classmethod
    def _are_addresses(cls, value: str) -> str:
        servers = [server.strip() for server in value.split(",")]
        if not all(map(_SERVER.fullmatch, servers)):
            # Not repeated: a password in a URL would be in a log.
            raise ValueError("expected host:port, several with commas between; no URL, no user")
        return ",".join(servers)

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.security_protocol.startswith("SASL_"):
            for name in ("sasl_username", "sasl_password"):
                if getattr(self, name) is None:
                    raise ValueError(f"{name} is required with {self.security_protocol}")
        if (self.ssl_certfile is None) != (self.ssl_keyfile is None):
            raise ValueError("ssl_certfile and ssl_keyfile are given together or not at all")
        return self

    def client_options(self) -> dict[str, object]:
        """The keyword arguments that every aiokafka client of this deployment shares.

        `check_crcs` is not among them: only consumers take it. Secrets are read now.

        Raises:
            SecretUnavailable: the password's reference leads nowhere, or a certificate file cannot
                be used.
        """
        options: dict[str, object] = {
            "bootstrap_servers": self.bootstrap_servers,
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol.startswith("SASL_"):
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = (
                self.sasl_password.resolve() if self.sasl_password else None
            )
        if self.security_protocol in ("SSL", "SASL_SSL"):
            options["ssl_context"] = self._ssl_context()
        return options

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            if self.ssl_certfile is not None:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile)
        except OSError as error:
            # Not readable or not a certificate; neither error says which file it is about.
            files = (self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile)
            raise SecretUnavailable(
                f"kafka: cannot use {', '.join(str(file) for file in files if file)} (ssl_cafile, "
                f"ssl_certfile, ssl_keyfile): {error}"
            ) from error
        return context
