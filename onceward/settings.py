"""Everything that can be set from outside, in one place. Imports nothing of ours.

Each setting is an environment variable `ONCEWARD_<NAME>`. A new setting of the engine is one line here, in its group, with a
description; an app declares its own (`FeatureSettings`). `make docs` then rewrites the table in docs/settings.md. Secrets are `SecretStr`: they show as
`**********` wherever they are printed. A name that is set but unknown is warned about; a value that does not
fit stops the start.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "ONCEWARD_"
DYNAMIC_PREFIXES = ("ONCEWARD_SOURCE_", "ONCEWARD_TEST_")
"""Names made up by their users (a source's secret, a test's switch), which cannot be listed here."""

Words = Annotated[tuple[str, ...], NoDecode]
"""Several values separated by commas."""

log = logging.getLogger("onceward.settings")


class SettingsError(Exception):
    """Settings that cannot be used; a line for each: name, value (never a secret's), reason."""


class Settings(BaseSettings):
    """The settings of one process; frozen, passed down from the composition root."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    # -- Process -----------------------------------------------------------------------------------
    app: str | None = Field(None, description="The app that commands run, `pkg.module:app`, where none is given.")
    environment: str = Field("development", description="Name of this installation; stands on every log line.")
    service: str = Field("onceward", description="Name of this service; stands on every log line.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe log line that is written."
    )
    log_format: Literal["auto", "json", "pretty"] = Field(
        "auto", description="`auto`: pretty on a terminal, JSON elsewhere."
    )
    tracing: bool = Field(
        False,
        description="OpenTelemetry spans (extra `otel`); exporters follow the standard `OTEL_*` variables.",
    )
    shutdown_grace_s: float = Field(
        30.0,
        ge=0,
        description="Seconds that running work has to finish at shutdown before it is handed back.",
    )

    # -- Database ----------------------------------------------------------------------------------
    database_url: SecretStr | None = Field(
        None,
        description="`postgresql://user:password@host:5432/name`; not set: embedded, in the data directory.",
    )
    data_dir: Path = Field(Path(".onceward"), description="Where the embedded database and stored files live.")
    pool_min: int = Field(2, ge=0, description="Database connections kept open per process.")
    pool_max: int = Field(20, ge=2, description="Database connections opened at most per process.")
    database_wait_s: float = Field(
        60.0,
        ge=0,
        description="Seconds that `up`, `serve`, `worker` and `scheduler` wait at start for PostgreSQL to be reachable; "
        "0: fail at once.",
    )
    pgbouncer: bool = Field(
        False,
        description="The URL leads through PgBouncer in transaction mode (docs/pgbouncer.md).",
    )
    direct_url: SecretStr | None = Field(
        None, description="The same database past PgBouncer, for migrations; needed only where `pgbouncer` is on."
    )
    auto_migrate: bool = Field(
        True, description="Apply pending migrations at start. Off: refuse to start while any is pending."
    )

    # -- HTTP --------------------------------------------------------------------------------------
    host: str = Field("127.0.0.1", description="Address to listen on; `0.0.0.0` for every interface.")
    port: int = Field(8400, ge=0, le=65535, description="Port to listen on; 0 lets the system choose.")
    public_url: str | None = Field(
        None, description="How the outside reaches this service (links in mails, signatures over the URL)."
    )
    trusted_proxies: Words = Field(
        ("127.0.0.1",), description="Addresses whose `X-Forwarded-*` headers are believed; `*` for all."
    )
    max_body_bytes: int = Field(1024 * 1024, ge=1024, description="Largest request body that is read, in bytes.")
    http_max_head_bytes: int = Field(
        32 * 1024, ge=4096, description="Largest request line and headers together, in bytes; more is answered 431."
    )
    http_max_headers: int = Field(100, ge=20, description="Most headers of a request; more are answered 431.")
    http_max_url_bytes: int = Field(
        8 * 1024, ge=1024, description="Longest URL of a request, in bytes; a longer one is answered 414."
    )
    http_head_timeout_s: float = Field(
        15.0,
        gt=0,
        description="Seconds in which a new connection must send its first request, or a request its headers.",
    )
    http_body_timeout_s: float = Field(
        30.0, gt=0, description="Seconds in which the body of a request must arrive; later it is answered 408."
    )
    http_idle_timeout_s: float = Field(
        75.0,
        gt=0,
        description="Seconds that a connection stays open between two requests; longer than the proxy keeps its own.",
    )
    http_write_timeout_s: float = Field(
        30.0, gt=0, description="Seconds after which a client that does not read its answer is cut off."
    )
    http_max_connections: int = Field(
        25_000, ge=1, description="Most open connections of a process, WebSockets included; more are answered 503."
    )
    http_max_connections_per_address: int = Field(
        256,
        ge=1,
        description="Most open connections of one client address (an IPv6 /64); more are answered 429. Trusted proxies "
        "are exempt; a WebSocket behind one counts for the forwarded address.",
    )
    http_descriptor_reserve: int = Field(
        256,
        ge=0,
        description="File descriptors that clients cannot use up, for the database and outgoing calls; at most half of "
        "the process's limit.",
    )
    websocket_frames_per_s: float = Field(
        100.0, gt=0, description="WebSocket frames, pings included, that one connection may send per second."
    )
    websocket_frames_per_s_per_address: float = Field(
        1000.0, gt=0, description="WebSocket frames that all connections of one client address may send per second."
    )
    cors_origins: Words = Field((), description="Origins that browsers may call the API from.")
    access_log: bool = Field(True, description="One log line per request, without its query string.")

    # -- Work --------------------------------------------------------------------------------------
    worker_concurrency: int = Field(64, ge=1, description="Pieces of work that one worker process runs at once.")
    queues: Words = Field((), description="Queues that this worker takes from; empty for all.")
    poll_interval_ms: int = Field(
        1000,
        ge=10,
        description="Longest wait for a wake-up before looking for due work anyway, in milliseconds.",
    )
    max_attempts: int = Field(
        5,
        ge=1,
        description="Attempts at an event whose handler declares no retry policy, before it becomes a dead letter.",
    )
    job_max_attempts: int = Field(12, ge=1, description="Attempts at a job that declares no retry policy.")
    sql_claim_expiry_s: int = Field(
        900,
        ge=1,
        description="Seconds after which an event claimed through the SQL interface is free again.",
    )

    # -- Limits ------------------------------------------------------------------------------------
    limit_tiers: str = Field(
        "FREE=1,BASIC=2,STANDARD=3,PREMIUM=5",
        description="Admission slots of a user by tier; a tier that is not listed counts as the smallest.",
    )
    limit_global_min: int = Field(3, ge=1, le=1000, description="The global limit never falls below this.")
    limit_global_max: int = Field(10, ge=1, le=1000, description="The global limit never rises above this.")

    # -- Retention ---------------------------------------------------------------------------------
    retention_days: int = Field(
        30, ge=1, description="Days that bodies and attempts of finished work are kept; dead letters stay."
    )
    dedupe_days: int = Field(400, ge=1, description="Days that the dedupe key of a finished event outlives its body.")

    # -- Trust -------------------------------------------------------------------------------------
    secret_key: SecretStr | None = Field(
        None,
        description="Keys that encrypt stored secrets, comma separated: the first encrypts, all decrypt. "
        "Not set: one is made in the data directory.",
    )
    session_hours: int = Field(12, ge=1, description="Hours that a dashboard session lasts.")
    jwt_algorithm: Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"] = Field(
        "HS256", description="How the tokens of end users are signed."
    )
    jwt_secret: SecretStr | None = Field(None, description="Shared key for the HS algorithms.")
    jwt_jwks_url: str | None = Field(None, description="Where the public keys for the other algorithms are fetched.")
    jwt_jwks_file: Path | None = Field(None, description="The same keys from a file.")
    jwt_audience: str | None = Field(None, description="Audience that a token must carry.")
    jwt_issuer: str | None = Field(None, description="Issuer that a token must carry.")

    # -- Live --------------------------------------------------------------------------------------
    live_max_connections: int = Field(20_000, ge=1, description="Live connections that one process holds open.")
    live_max_connections_per_organization: int = Field(
        10_000, ge=1, description="Of these, how many may belong to one organization."
    )
    live_retention_s: float = Field(
        300.0,
        ge=10,
        description="Seconds that changes are kept for nodes that were away; longer away, all is read anew.",
    )
    live_query_timeout_s: float = Field(10.0, gt=0, description="Seconds that a live query may take.")
    live_runners: int = Field(4, ge=1, description="Live queries that one process runs at once, a connection each.")

    # -- Alerts ------------------------------------------------------------------------------------
    admin_emails: Words = Field((), description="Who is told of dead letters, broken runs and other trouble.")
    fraud_emails: Words = Field((), description="Who is told of wrong amounts or currencies; admins if empty.")
    accounting_emails: Words = Field((), description="Who is told of ledger trouble; admins if empty.")
    security_emails: Words = Field((), description="Who is told of bad signatures; admins if empty.")

    # -- Messages ----------------------------------------------------------------------------------
    brand: str = Field("Onceward", description="Name above and below mails.")
    default_locale: str = Field("en", description="Language of messages to recipients who have none.")
    default_timezone: str = Field("UTC", description="Time zone of recipients who have none.")
    quiet_hours: str | None = Field(
        None, description="When nothing but transactional messages go out, in the recipient's zone: `21:00-08:00`."
    )
    email_per_s: float = Field(0, ge=0, description="Mails per second over all workers; 0: no limit.")
    sms_per_s: float = Field(0, ge=0, description="Text messages per second over all workers; 0: no limit.")
    slack_per_s: float = Field(1, ge=0, description="Slack messages per second over all workers; 0: no limit.")
    whatsapp_interval_ms: int = Field(
        500, ge=0, description="Least time between two WhatsApp messages of one sender, over all workers."
    )

    # -- Mail --------------------------------------------------------------------------------------
    mail_from: str = Field("Onceward <no-reply@localhost>", description="Sender of mails.")
    smtp_host: str | None = Field(None, description="Mail server; not set: mails are written to the data directory.")
    smtp_port: int = Field(587, ge=1, le=65535, description="Port of the mail server.")
    smtp_username: str | None = Field(None, description="Account at the mail server.")
    smtp_password: SecretStr | None = Field(None, description="Its password.")
    smtp_tls: Literal["starttls", "implicit", "none"] = Field(
        "starttls", description="How the connection to the mail server is protected."
    )
    brevo_api_key: SecretStr | None = Field(None, description="Send mail through Brevo instead of SMTP.")

    # -- Slack, SMS, WhatsApp, Web Push ------------------------------------------------------------
    slack_bot_token: SecretStr | None = Field(None, description="Token to post as a Slack app (`xoxb-...`).")
    slack_webhook_url: SecretStr | None = Field(None, description="Slack incoming webhook, where no app is installed.")
    slack_channel: str | None = Field(None, description="Slack channel for notifications whose type has no own one.")
    slack_channels: Annotated[dict[str, str], NoDecode] = Field(
        default_factory=dict,
        description='Slack channel per notification type, as JSON: `{"CRON_FAILURE": "#ops"}`.',
    )
    twilio_account_sid: str | None = Field(None, description="Twilio account.")
    twilio_auth_token: SecretStr | None = Field(None, description="Its token; also verifies Twilio's webhooks.")
    twilio_from: str | None = Field(None, description="Sender number, or a messaging service (`MG...`).")
    whatsapp_access_token: SecretStr | None = Field(None, description="WhatsApp Cloud API token.")
    whatsapp_phone_number_id: str | None = Field(None, description="WhatsApp sender.")
    webpush_private_key: SecretStr | None = Field(None, description="VAPID private key (base64url).")
    webpush_subject: str | None = Field(None, description="VAPID contact, `mailto:` or `https:`.")

    # -- Payments ----------------------------------------------------------------------------------
    stripe_secret_key: SecretStr | None = Field(None, description="Stripe API key (`sk_...`), to charge and refund.")
    stripe_url: str = Field("https://api.stripe.com", description="Where Stripe's API is; a simulator in development.")
    paypal_client_id: str | None = Field(None, description="PayPal app.")
    paypal_client_secret: SecretStr | None = Field(None, description="Its secret.")
    paypal_url: str = Field(
        "https://api-m.paypal.com", description="Where PayPal's API is; its sandbox or a simulator in development."
    )

    # -- Files -------------------------------------------------------------------------------------
    files_url: str | None = Field(
        None,
        description="Where apps keep files: `s3://bucket/prefix` (credentials from `AWS_*`) or `file:///folder`; "
        "not set: below the data directory.",
    )

    # -- Outside -----------------------------------------------------------------------------------
    allow_loopback_endpoints: bool = Field(
        False, description="Outbound webhooks may go to `http://127.0.0.1` (development only)."
    )
    delivery_concurrency: int = Field(
        256,
        ge=4,
        description="Outbound webhooks that one worker process sends at once; later tries have a quarter more.",
    )
    delivery_timeout_s: float = Field(
        10.0, gt=0, le=60, description="Seconds that an endpoint has to answer an outbound webhook."
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis or Valkey that refuses requests above a limit before PostgreSQL is asked (extra `redis`).",
    )

    @field_validator(
        "trusted_proxies",
        "cors_origins",
        "queues",
        "admin_emails",
        "fraud_emails",
        "accounting_emails",
        "security_emails",
        mode="before",
    )
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value

    @field_validator("slack_channels", mode="before")
    @classmethod
    def _parse_json(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from None

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("database_url", "direct_url", "secret_key", "public_url", "redis_url", "smtp_host", mode="before")
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("database_url", "direct_url")
    @classmethod
    def _postgresql_only(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql:// (PostgreSQL 15 or newer is the only database)")
        return value

    @field_validator("public_url")
    @classmethod
    def _absolute_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("https://", "http://")):
            raise ValueError("must start with https:// or http://")
        return value.rstrip("/") if value is not None else None

    @model_validator(mode="after")
    def _pool_is_a_range(self) -> Settings:
        if self.pool_min > self.pool_max:
            raise ValueError(f"ONCEWARD_POOL_MIN={self.pool_min} is above ONCEWARD_POOL_MAX={self.pool_max}")
        return self

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """The encryption keys, newest first; empty when none is set."""
        text = "" if self.secret_key is None else self.secret_key.get_secret_value()
        return tuple(key.strip() for key in text.split(",") if key.strip())

    @property
    def url(self) -> str:
        """How the outside reaches this service, with the listening address as the fallback."""
        return self.public_url or f"http://{self.host}:{self.port}"


class FeatureSettings(BaseSettings):
    """Base of the settings that a feature or an app declares: each field is read from `ONCEWARD_<NAME>_<FIELD>`."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


F = TypeVar("F", bound=FeatureSettings)

Declared = Sequence[tuple[str, type[FeatureSettings]]]
"""Features and apps that declare settings: name and model."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    default: str
    description: str
    secret: bool

    value: str
    """As it is in force; empty for a secret's."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """An environment variable that looks like a setting and is none."""

    name: str
    suggestion: str | None

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return f"{self.name} is not a setting{hint} (docs/settings.md lists them all)"


def all_settings(declared: Declared = (), *, current: Settings | None = None) -> list[Setting]:
    """Every setting in the order of declaration: the engine's, then those of features and apps."""
    rows = _rows(PREFIX, Settings, current)
    for name, model in declared:
        rows += _rows(prefix_of(name), model, None if current is None else load_feature_settings(name, model))
    return rows


def _rows(prefix: str, model: type[BaseSettings], current: BaseSettings | None) -> list[Setting]:
    rows: list[Setting] = []
    for name, field in model.model_fields.items():
        default = _show(field.get_default(call_default_factory=True))
        value = "" if current is None else _show(getattr(current, name))
        rows.append(
            Setting(prefix + name.upper(), default, field.description or "", _is_secret(field.annotation), value)
        )
    return rows


def prefix_of(name: str) -> str:
    """What the variables of a feature or an app begin with."""
    return f"{PREFIX}{name.upper()}_"


def unknown_names(environ: Mapping[str, str], declared: Declared = ()) -> list[UnknownName]:
    """Names with our prefix that nothing reads: usually a typing mistake."""
    known = {row.name for row in all_settings(declared)}
    unknown: list[UnknownName] = []
    for name in sorted(environ):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not upper.startswith(DYNAMIC_PREFIXES):
            close = difflib.get_close_matches(upper, known, n=1, cutoff=0.75)
            unknown.append(UnknownName(name, close[0] if close else None))
    return unknown


def check_prefixes(declared: Declared) -> None:
    """Refuse a feature or app whose variables could be mistaken for the engine's."""
    for name, _ in declared:
        clash = [f"{PREFIX}{field.upper()}" for field in Settings.model_fields if field.startswith(f"{name.lower()}_")]
        if clash:
            raise SettingsError(f"{name!r} cannot declare settings: {clash[0]} is a setting of the engine; rename it")


def load_settings(**overrides: Any) -> Settings:
    """Read the environment. `overrides` (command line options) win; None among them means "not given"."""
    return _load(Settings, PREFIX, {name: value for name, value in overrides.items() if value is not None})


def load_feature_settings(name: str, model: type[F]) -> F:
    """Read what a feature or an app declares from the environment."""
    return _load(model, prefix_of(name), {})


def warn_of_unknown_names(declared: Declared) -> None:
    """Log the variables with our prefix that nothing reads. Call once the features of the process are known."""
    for unknown in unknown_names(os.environ, declared):
        log.warning("%s", unknown)


M = TypeVar("M", bound=BaseSettings)


def _load(model: type[M], prefix: str, given: Mapping[str, Any]) -> M:
    try:
        return model(_env_prefix=prefix, **given)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, model, prefix, given))) from None


def _lines(error: ValidationError, model: type[BaseSettings], prefix: str, given: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        reason = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            lines.append(reason)
            continue
        field = str(problem["loc"][0]).lower()
        name = prefix + field.upper()
        if _is_secret(model.model_fields[field].annotation):
            lines.append(f"{name}: {reason} (value not shown)")
        else:
            lines.append(f"{name}={given.get(field, os.environ.get(name, ''))!r}: {reason}")
    return lines


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or SecretStr in get_args(annotation)


def _show(value: object) -> str:
    match value:
        case None | () | {}:
            return ""
        case tuple():
            return ",".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case bool():
            return str(value).lower()
        case _:
            return str(value)
