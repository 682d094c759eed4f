"""The settings of the web feature: limits of HTTP and WebSocket, who may call, and the tokens of end users."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, SecretStr, field_validator

from onceward.http.urls import is_private
from onceward.settings.environment import PREFIX, FeatureSettings, OptionalSecret, Words


class WebSettings(FeatureSettings):
    """The settings of the HTTP server: sizes, times, connections, and the tokens of end users."""

    environment_prefix: ClassVar[str] = PREFIX

    health_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description=(
            "Port on which `worker` and `scheduler` answer `/healthz`, `/readyz` and `/metrics`; if not set, they "
            "open no port."
        ),
    )
    max_body_bytes: int = Field(default=1024 * 1024, ge=1024, description="Maximum size of a request body, in bytes.")
    http_head_timeout_s: float = Field(
        default=15.0,
        gt=0,
        description="Seconds within which a new connection must send its first request, or a request all its headers.",
    )
    http_body_timeout_s: float = Field(
        default=30.0, gt=0, description="Seconds within which the whole body of a request must arrive; after that: 408."
    )
    http_idle_timeout_s: float = Field(
        default=75.0,
        gt=0,
        description="Seconds that an idle connection stays open; set it longer than the proxy's own idle timeout.",
    )
    http_write_timeout_s: float = Field(
        default=30.0,
        gt=0,
        description="Seconds after which the server disconnects a client that does not read its response.",
    )
    http_max_connections: int = Field(
        default=25_000,
        ge=1,
        description="Maximum number of open connections per process, including WebSockets; above it: 503.",
    )
    http_max_connections_per_address: int = Field(
        default=256,
        ge=1,
        description="Maximum number of open connections per client address (for IPv6, per /64); above it: 429. Trusted "
        "proxies are exempt; a WebSocket behind a proxy counts for the forwarded address.",
    )
    http_statement_timeout_s: float = Field(
        default=30.0,
        ge=1,
        description=(
            "Seconds after which PostgreSQL ends a statement of an API request or a page; the answer is then 503."
        ),
    )
    cors_origins: Words = Field(default=(), description="Web origins from which browsers may call the API.")
    metrics_token: OptionalSecret = Field(
        default=None,
        description="Token that a request for `/metrics` must send (`Authorization: Bearer ...`). If not set, the web "
        "port shows metrics to this machine only, and the health port to everybody who reaches it.",
    )
    access_log: bool = Field(default=True, description="Log one line per request, without the query string.")
    jwt_algorithm: Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"] = Field(
        default="HS256", description="Algorithm that signs the tokens of end users."
    )
    jwt_secret: SecretStr | None = Field(default=None, description="Shared key for the HS algorithms.")
    jwt_jwks_url: str | None = Field(
        default=None, description="URL of the public keys (JWKS) for the other algorithms."
    )
    jwt_jwks_file: Path | None = Field(default=None, description="File with the public keys, instead of the URL.")
    jwt_audience: str | None = Field(default=None, description="Audience (`aud`) that a token must have.")
    jwt_issuer: str | None = Field(default=None, description="Issuer (`iss`) that a token must have.")

    @field_validator("jwt_jwks_url")
    @classmethod
    def _https_or_loopback(cls, value: str | None) -> str | None:
        """An attacker who can change the key set on its way can sign tokens for everybody."""
        if value is not None and not is_private(value):
            raise ValueError(
                "must start with https:// (http:// only to this machine): the keys decide which tokens are valid"
            )
        return value
