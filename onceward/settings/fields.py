"""The settings of the frame: the process, its logs, its database and its address.

Each field is an environment variable `ONCEWARD_<FIELD>`. A feature declares its own settings in the `settings.py` of
its folder (`FeatureSettings`), and all code reads them in one way: `settings.of(InboxSettings).dedupe_days`. `make
docs` then rewrites docs/settings.md. Secrets are `SecretStr`, which prints as `**********`. The process logs a warning
for an unknown variable with our prefix and refuses to start with an invalid value.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar, cast

from pydantic import Field, PrivateAttr, SecretStr, field_validator, model_validator

from onceward.settings.database_url import selects_primary, servers_of
from onceward.settings.environment import (
    PREFIX,
    AsText,
    EnvironmentModel,
    FeatureSettings,
    OptionalSecret,
    OptionalText,
    Words,
    read,
)

F = TypeVar("F", bound=FeatureSettings)


class Settings(EnvironmentModel):
    """The settings of one process. They are frozen, and the composition root passes them to every part.

    `of(WebSettings)` returns the settings of a feature. `using(WebSettings(...))` gives other ones, for example in a
    test.
    """

    environment_prefix: ClassVar[str] = PREFIX

    # -- Process -----------------------------------------------------------------------------------
    app: str | None = Field(default=None, description="The app to run if the command names none: `pkg.module:app`.")
    environment: str = Field(default="development", description="Name of this installation; added to every log line.")
    service: str = Field(default="onceward", description="Name of this service; added to every log line.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest severity that is logged."
    )
    log_format: Literal["auto", "json", "pretty"] = Field(
        default="auto", description="Format of log lines; `auto` is `pretty` on a terminal and `json` elsewhere."
    )
    tracing: bool = Field(
        default=False,
        description="Record OpenTelemetry spans (extra `otel`); the standard `OTEL_*` variables configure exporters.",
    )
    shutdown_grace_s: float = Field(
        default=30.0,
        ge=0,
        description="Seconds that running work may take to finish at shutdown; after that, the worker releases it.",
    )
    blocked_warn_s: float = Field(
        default=5.0,
        gt=0,
        description="Log the work and the line that block the event loop for this many seconds.",
    )
    blocked_limit_s: float = Field(
        default=60.0,
        ge=0,
        description="End the process when its event loop is blocked, or when overdue handlers hold all slots of a "
        "queue, for this many seconds, so that other workers take over; 0: never.",
    )

    # -- Database ----------------------------------------------------------------------------------
    database_url: OptionalSecret = Field(
        default=None,
        description="`postgresql://user:password@host:5432/name`; if not set, an embedded PostgreSQL runs in the data "
        "directory.",
    )
    data_dir: Path = Field(
        default=Path(".onceward"), description="Directory of the embedded database and stored files."
    )
    pool_max: int = Field(
        default=20,
        ge=2,
        description="Maximum number of pooled database connections per process; they open when they are needed.",
    )
    connections_max: int | None = Field(
        default=None,
        ge=10,
        description="Maximum number of database connections of all processes of this installation together, which "
        "share them (docs/scaling.md#connections). If not set: what the server allows, less 10 for commands "
        "and operators.",
    )
    database_wait_s: float = Field(
        default=60.0,
        ge=0,
        description="Seconds that `up`, `serve`, `worker` and `scheduler` wait at start for PostgreSQL; 0 means fail "
        "immediately.",
    )
    pgbouncer: bool = Field(
        default=False,
        description="The database URL points to PgBouncer in transaction mode (docs/pgbouncer.md).",
    )
    migration_url: OptionalSecret = Field(
        default=None,
        description="URL of the same database for `onceward migrate`: with the login that owns the tables, and without "
        "PgBouncer. If not set, the database URL is used for migrations too.",
    )
    auto_migrate: bool = Field(
        default=True,
        description="Apply pending migrations at start; if false, refuse to start while a migration is pending that "
        "this version needs (docs/upgrading.md).",
    )
    migration_lock_timeout_ms: int = Field(
        default=500,
        ge=10,
        description=(
            "Milliseconds that a migration waits for a lock before it rolls back, lets the traffic pass and "
            "tries again."
        ),
    )
    migration_wait_s: float = Field(
        default=600.0, ge=0, description="Seconds after which a migration that does not get its locks gives up."
    )

    # -- Address --------------------------------------------------------------------------------------
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` means every interface.")
    port: int = Field(
        default=8400, ge=0, le=65535, description="Port to listen on; 0 means that the system chooses one."
    )
    public_url: OptionalText = Field(
        default=None,
        description="Public URL of this service, used in email links and in signatures that cover the URL.",
    )
    trusted_proxies: Words = Field(
        default=("127.0.0.1",),
        description="Addresses and networks of the proxies whose `X-Forwarded-*` headers are trusted: "
        "`10.0.3.7,10.4.0.0/16`. The client is the last address in `X-Forwarded-For` that is not in this list. `*` "
        "trusts everybody, and is refused unless `environment` is set to `development`.",
    )

    # -- Services ----------------------------------------------------------------------------------
    simulators: Annotated[dict[str, str], AsText] = Field(
        default_factory=dict,
        description="Services for which a simulator stands, in development and tests, each with its address: "
        "`NAME=http://127.0.0.1:9001,NAME=...`.",
    )
    # -- Files -------------------------------------------------------------------------------------
    files_url: str | None = Field(
        default=None,
        description="Storage for the files of apps: `s3://bucket/prefix` (credentials from `AWS_*`) or "
        "`file:///folder`; if not set, a folder in the data directory.",
    )

    # -- Outside -----------------------------------------------------------------------------------
    allow_loopback_endpoints: bool = Field(
        default=False, description="Allow outbound webhooks to loopback addresses, over http too (development only)."
    )

    _of_features: dict[type[FeatureSettings], FeatureSettings] = PrivateAttr(
        default_factory=dict[type[FeatureSettings], FeatureSettings]
    )

    def of(self, model: type[F]) -> F:
        """Return the settings of a feature. The first call reads them from the environment, unless they were given."""
        if model not in self._of_features:
            if not model.environment_prefix:
                raise LookupError(
                    f"{model.__name__} has no prefix of its own: read it with `app.settings({model.__name__})`"
                )
            self._of_features[model] = read(model, model.environment_prefix)
        return cast(F, self._of_features[model])

    def has(self, model: type[FeatureSettings]) -> bool:
        """Return whether the settings of this feature were given or read."""
        return model in self._of_features

    def using(self, *given: FeatureSettings) -> Settings:
        """Return these settings with other settings of some features."""
        copy = self.model_copy()
        copy._of_features = {**self._of_features, **{type(each): each for each in given}}
        return copy

    @field_validator("simulators", mode="before")
    @classmethod
    def _addresses_by_name(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        pairs = [word.strip().partition("=") for word in value.split(",") if word.strip()]
        for name, _, url in pairs:
            if not url.startswith(("http://", "https://")):
                raise ValueError(f"must be NAME=ADDRESS pairs separated by commas: {name!r} has no http:// address")
        return {name: url for name, _, url in pairs}

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("database_url", "migration_url")
    @classmethod
    def _postgresql_only(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        scheme, colon, rest = value.get_secret_value().partition("://")
        if colon and scheme in ("postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2"):
            return SecretStr(f"postgresql://{rest}")  # a URL for SQLAlchemy, which names the driver
        if not colon or scheme not in ("postgresql", "postgres"):
            raise ValueError("must start with postgresql:// (PostgreSQL 15 or newer is the only database)")
        try:
            several = len(servers_of(value.get_secret_value())) > 1
        except ValueError as error:
            raise ValueError(f"cannot be read: {error}") from None
        if several and not selects_primary(value.get_secret_value()):
            raise ValueError(
                "names several servers: add target_session_attrs=read-write, so that only the primary is used"
            )
        return value

    @field_validator("public_url")
    @classmethod
    def _absolute_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("https://", "http://")):
            raise ValueError("must start with https:// or http://")
        return value.rstrip("/") if value is not None else None

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses_or_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for word in value:
            if word == "*":
                continue
            try:
                ip_network(word)
            except ValueError as error:
                raise ValueError(f"must be addresses or networks such as 10.4.0.0/16: {error}") from None
        return value

    @model_validator(mode="after")
    def _trusts_no_stranger(self) -> Settings:
        """With `*`, or a network of all addresses, every client could choose its address and escape all limits."""
        everybody = [word for word in self.trusted_proxies if word == "*" or ip_network(word).prefixlen == 0]
        # The default of the environment is not enough: who forgot to set it may be in production.
        if everybody and not (self.environment == "development" and "environment" in self.model_fields_set):
            raise ValueError(
                f"ONCEWARD_TRUSTED_PROXIES={everybody[0]} lets every client choose the address that limits and logs "
                "see: list the addresses or networks of your proxies (docs/security.md#behind-a-reverse-proxy), or set "
                "ONCEWARD_ENVIRONMENT=development"
            )
        return self

    @property
    def database_servers(self) -> int:
        """Return how many servers the database URL names."""
        return 1 if self.database_url is None else len(servers_of(self.database_url.get_secret_value()))

    @property
    def url(self) -> str:
        """Return the public URL of this service, or the listening address if no public URL is set."""
        return self.public_url or f"http://{self.host}:{self.port}"
