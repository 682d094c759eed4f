"""The settings of the engine, one line each.

Each setting is an environment variable `ONCEWARD_<NAME>`. To add a setting to the engine, add one line with a description to
its group here; an app declares its own settings (`FeatureSettings`). `make docs` then rewrites the table in docs/settings.md.
Secrets are `SecretStr`, which prints as `**********`. The process logs a warning for an unknown variable with our prefix and
refuses to start with an invalid value.
"""

from __future__ import annotations

import json
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from onceward.settings.database_url import selects_primary, servers_of
from onceward.settings.environment import AsText, EnvironmentModel
from onceward.settings.sign_in import SignInSettings

PREFIX = "ONCEWARD_"

Words = Annotated[tuple[str, ...], AsText]
"""A list of values separated by commas."""


class Settings(SignInSettings):
    """The settings of one process. They are frozen, and the composition root passes them to every part."""

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
        description="End the process when its event loop is blocked, or when overdue handlers hold all slots of a queue, for this "
        "many seconds, so that other workers take over; 0: never.",
    )

    # -- Database ----------------------------------------------------------------------------------
    database_url: SecretStr | None = Field(
        default=None,
        description="`postgresql://user:password@host:5432/name`; if not set, an embedded PostgreSQL runs in the data "
        "directory.",
    )
    data_dir: Path = Field(
        default=Path(".onceward"), description="Directory of the embedded database and stored files."
    )
    pool_min: int = Field(default=2, ge=0, description="Minimum number of pooled database connections per process.")
    pool_max: int = Field(default=20, ge=2, description="Maximum number of pooled database connections per process.")
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
    migration_url: SecretStr | None = Field(
        default=None,
        description="URL of the same database for `onceward migrate`: with the login that owns the tables, and without PgBouncer. "
        "If not set, the database URL is used for migrations too.",
    )
    auto_migrate: bool = Field(
        default=True,
        description="Apply pending migrations at start; if false, refuse to start while a migration is pending that this version "
        "needs (docs/upgrading.md).",
    )
    migration_lock_timeout_ms: int = Field(
        default=500,
        ge=10,
        description="Milliseconds that a migration waits for a lock before it rolls back, lets the traffic pass and tries again.",
    )
    migration_wait_s: float = Field(
        default=600.0, ge=0, description="Seconds after which a migration that does not get its locks gives up."
    )

    # -- HTTP --------------------------------------------------------------------------------------
    host: str = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` means every interface.")
    port: int = Field(
        default=8400, ge=0, le=65535, description="Port to listen on; 0 means that the system chooses one."
    )
    health_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port on which `worker` and `scheduler` answer `/healthz`, `/readyz` and `/metrics`; if not set, they open no port.",
    )
    public_url: str | None = Field(
        default=None,
        description="Public URL of this service, used in email links and in signatures that cover the URL.",
    )
    trusted_proxies: Words = Field(
        default=("127.0.0.1",),
        description="Addresses and networks of the proxies whose `X-Forwarded-*` headers are trusted: `10.0.3.7,10.4.0.0/16`. The client is "
        "the last address in `X-Forwarded-For` that is not in this list. `*` trusts everybody, and is refused unless `environment` is "
        "`development`.",
    )
    max_body_bytes: int = Field(default=1024 * 1024, ge=1024, description="Maximum size of a request body, in bytes.")
    http_max_head_bytes: int = Field(
        default=32 * 1024,
        ge=4096,
        description="Maximum size of request line and headers together, in bytes; above it: 431.",
    )
    http_max_headers: int = Field(
        default=100, ge=20, description="Maximum number of headers in a request; above it: 431."
    )
    http_max_url_bytes: int = Field(
        default=8 * 1024, ge=1024, description="Maximum length of a request's URL, in bytes; above it: 414."
    )
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
    http_descriptor_reserve: int = Field(
        default=256,
        ge=0,
        description="File descriptors reserved for the database and outgoing calls, which clients cannot use; at most "
        "half of the process's limit.",
    )
    websocket_frames_per_s: float = Field(
        default=100.0, gt=0, description="WebSocket frames, including pings, that one connection may send per second."
    )
    websocket_frames_per_s_per_address: float = Field(
        default=1000.0,
        gt=0,
        description="WebSocket frames that all connections of one client address may send per second.",
    )
    cors_origins: Words = Field(default=(), description="Web origins from which browsers may call the API.")
    metrics_token: SecretStr | None = Field(
        default=None,
        description="Token that a request for `/metrics` must send (`Authorization: Bearer ...`). If not set, the web port shows metrics to "
        "this machine only, and the health port to everybody who reaches it.",
    )
    access_log: bool = Field(default=True, description="Log one line per request, without the query string.")

    # -- Work --------------------------------------------------------------------------------------
    worker_concurrency: int = Field(
        default=64, ge=1, description="Work items that one worker process runs at the same time."
    )
    queues: Words = Field(default=(), description="Queues from which this worker takes work; empty means all.")
    poll_interval_ms: int = Field(
        default=1000,
        ge=10,
        description="Milliseconds after which an idle worker looks for due work even without a notification.",
    )
    max_attempts: int = Field(
        default=5,
        ge=1,
        description="Attempts at an event whose handler declares no retry policy, before it becomes a dead letter.",
    )
    job_max_attempts: int = Field(default=12, ge=1, description="Attempts at a job that declares no retry policy.")
    sql_claim_expiry_s: int = Field(
        default=900,
        ge=1,
        description="Seconds after which a claim on an event through the SQL interface expires.",
    )

    # -- Limits ------------------------------------------------------------------------------------
    limit_tiers: str = Field(
        default="FREE=1,BASIC=2,STANDARD=3,PREMIUM=5",
        description="Admission slots per user, by tier; a tier that is not listed gets the smallest number.",
    )
    limit_global_min: int = Field(default=3, ge=1, le=1000, description="Lower bound of the global limit.")
    limit_global_max: int = Field(default=10, ge=1, le=1000, description="Upper bound of the global limit.")

    # -- Retention ---------------------------------------------------------------------------------
    retention_days: int = Field(
        default=30,
        ge=1,
        description="Days to keep the bodies and attempts of finished work; dead letters are always kept.",
    )
    dedupe_days: int = Field(default=400, ge=1, description="Days to keep the dedupe key of a finished event.")

    # -- Trust -------------------------------------------------------------------------------------
    secret_key: SecretStr | None = Field(
        default=None,
        description="Keys for stored secrets, separated by commas: the first encrypts, all decrypt. If not set, a key is "
        "created in the data directory.",
    )

    # -- Live --------------------------------------------------------------------------------------
    live_max_connections: int = Field(
        default=20_000, ge=1, description="Maximum number of live connections per process."
    )
    live_max_connections_per_organization: int = Field(
        default=10_000, ge=1, description="Maximum number of live connections per process for one organization."
    )
    live_retention_s: float = Field(
        default=300.0,
        ge=10,
        description="Seconds to keep changes for nodes that lost their connection; after a longer loss, a node reads "
        "everything again.",
    )
    live_query_timeout_s: float = Field(default=10.0, gt=0, description="Maximum duration of a live query, in seconds.")
    live_runners: int = Field(
        default=4, ge=1, description="Live queries that one process runs at the same time; each uses one connection."
    )

    # -- Alerts ------------------------------------------------------------------------------------
    admin_emails: Words = Field(
        default=(), description="Recipients of alerts: dead letters, failed runs and other problems."
    )
    fraud_emails: Words = Field(
        default=(), description="Recipients of alerts about wrong amounts or currencies; empty: admins."
    )
    accounting_emails: Words = Field(default=(), description="Recipients of alerts about the ledger; empty: admins.")
    security_emails: Words = Field(default=(), description="Recipients of alerts about bad signatures; empty: admins.")

    # -- Messages ----------------------------------------------------------------------------------
    brand: str = Field(default="Onceward", description="Name in the header and footer of emails.")
    default_locale: str = Field(default="en", description="Language of messages to recipients without a language.")
    default_timezone: str = Field(default="UTC", description="Time zone of recipients without a time zone.")
    quiet_hours: str | None = Field(
        default=None,
        description="Hours in the recipient's time zone when only transactional messages are sent: `21:00-08:00`.",
    )
    email_per_s: float = Field(default=0, ge=0, description="Emails per second, across all workers; 0 means no limit.")
    sms_per_s: float = Field(
        default=0, ge=0, description="Text messages per second, across all workers; 0 means no limit."
    )
    slack_per_s: float = Field(
        default=1, ge=0, description="Slack messages per second, across all workers; 0 means no limit."
    )
    whatsapp_interval_ms: int = Field(
        default=500,
        ge=0,
        description="Minimum milliseconds between two WhatsApp messages of one sender, across all workers.",
    )

    # -- Mail --------------------------------------------------------------------------------------
    mail_from: str = Field(default="Onceward <no-reply@localhost>", description="Sender of emails.")
    smtp_host: str | None = Field(
        default=None, description="Mail server; if not set, emails are written to the data directory."
    )
    smtp_port: int = Field(default=587, ge=1, le=65535, description="Port of the mail server.")
    smtp_username: str | None = Field(default=None, description="User name at the mail server.")
    smtp_password: SecretStr | None = Field(default=None, description="Password at the mail server.")
    smtp_tls: Literal["starttls", "implicit", "none"] = Field(
        default="starttls", description="Encryption of the connection to the mail server."
    )
    brevo_api_key: SecretStr | None = Field(
        default=None, description="Brevo API key; sends emails through Brevo instead of SMTP."
    )
    brevo_url: str = Field(default="https://api.brevo.com", description="URL of Brevo's API.")

    # -- Slack, SMS, WhatsApp, Web Push ------------------------------------------------------------
    slack_bot_token: SecretStr | None = Field(default=None, description="Token to post as a Slack app (`xoxb-...`).")
    slack_url: str = Field(default="https://slack.com", description="URL of Slack's Web API.")
    slack_webhook_url: SecretStr | None = Field(
        default=None, description="Slack incoming webhook, for use without a Slack app."
    )
    slack_channel: str | None = Field(
        default=None, description="Slack channel for notification types without a channel of their own."
    )
    slack_channels: Annotated[dict[str, str], AsText] = Field(
        default_factory=dict,
        description='Slack channel per notification type, as JSON: `{"CRON_FAILURE": "#ops"}`.',
    )
    twilio_account_sid: str | None = Field(default=None, description="Twilio account id.")
    twilio_auth_token: SecretStr | None = Field(
        default=None, description="Twilio token; also verifies Twilio's webhooks."
    )
    twilio_from: str | None = Field(
        default=None, description="Twilio sender: a phone number or a messaging service (`MG...`)."
    )
    twilio_url: str = Field(default="https://api.twilio.com", description="URL of Twilio's API.")
    whatsapp_access_token: SecretStr | None = Field(default=None, description="WhatsApp Cloud API token.")
    whatsapp_phone_number_id: str | None = Field(default=None, description="Id of the WhatsApp sender's phone number.")
    whatsapp_url: str = Field(default="https://graph.facebook.com", description="URL of Meta's Graph API.")
    webpush_private_key: SecretStr | None = Field(default=None, description="VAPID private key (base64url).")
    webpush_subject: str | None = Field(default=None, description="VAPID contact: a `mailto:` or `https:` URL.")

    # -- Payments ----------------------------------------------------------------------------------
    stripe_secret_key: SecretStr | None = Field(
        default=None, description="Stripe API key (`sk_...`) for charges and refunds."
    )
    stripe_url: str = Field(
        default="https://api.stripe.com", description="URL of Stripe's API; in development, of a simulator."
    )
    paypal_client_id: str | None = Field(default=None, description="Client id of the PayPal app.")
    paypal_client_secret: SecretStr | None = Field(default=None, description="Client secret of the PayPal app.")
    paypal_url: str = Field(
        default="https://api-m.paypal.com",
        description="URL of PayPal's API; in development, of its sandbox or a simulator.",
    )

    # -- Services ----------------------------------------------------------------------------------
    calcom_api_key: SecretStr | None = Field(default=None, description="Cal.com API key (`cal_live_...`) for bookings.")
    calcom_url: str = Field(default="https://api.cal.com", description="URL of Cal.com's API.")
    hubspot_token: SecretStr | None = Field(default=None, description="Token of a HubSpot private app (`pat-...`).")
    hubspot_url: str = Field(default="https://api.hubapi.com", description="URL of HubSpot's API.")
    ga4_measurement_id: str | None = Field(default=None, description="Google Analytics 4 measurement id (`G-...`).")
    ga4_api_secret: SecretStr | None = Field(
        default=None, description="Google Analytics 4 Measurement Protocol API secret."
    )
    ga4_url: str = Field(default="https://www.google-analytics.com", description="URL of Google Analytics.")
    mixpanel_secret: SecretStr | None = Field(
        default=None, description="Mixpanel project token, or the secret of a service account."
    )
    mixpanel_username: str | None = Field(
        default=None, description="User name of the Mixpanel service account, if one is used."
    )
    mixpanel_project_id: str | None = Field(
        default=None, description="Mixpanel project id, needed with a service account."
    )
    mixpanel_url: str = Field(
        default="https://api.mixpanel.com",
        description="URL of Mixpanel's API; `https://api-eu.mixpanel.com` for Europe.",
    )
    segment_write_key: SecretStr | None = Field(default=None, description="Write key of the Segment source.")
    segment_url: str = Field(
        default="https://api.segment.io",
        description="URL of Segment's API; `https://events.eu1.segmentapis.com` for Europe.",
    )
    posthog_project_token: SecretStr | None = Field(default=None, description="PostHog project token (`phc_...`).")
    posthog_url: str = Field(
        default="https://us.i.posthog.com", description="URL of PostHog; `https://eu.i.posthog.com` for Europe."
    )
    daily_api_key: SecretStr | None = Field(default=None, description="Daily API key, for video rooms and recordings.")
    daily_url: str = Field(default="https://api.daily.co", description="URL of Daily's API.")
    openai_api_key: SecretStr | None = Field(
        default=None,
        description="Key of OpenAI or of a service with the same chat API; any text if the service needs no key.",
    )
    openai_model: str | None = Field(default=None, description="Name of the chat model that calls use by default.")
    openai_url: str = Field(
        default="https://api.openai.com/v1", description="Base URL of the chat API, up to and including `/v1`."
    )
    openai_token_limit_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        default="max_completion_tokens",
        description="Name of the field that limits an answer; many compatible services know only `max_tokens`.",
    )

    # -- Files -------------------------------------------------------------------------------------
    files_url: str | None = Field(
        default=None,
        description="Storage for the files of apps: `s3://bucket/prefix` (credentials from `AWS_*`) or `file:///folder`; "
        "if not set, a folder in the data directory.",
    )

    # -- Outside -----------------------------------------------------------------------------------
    allow_loopback_endpoints: bool = Field(
        default=False, description="Allow outbound webhooks to `http://127.0.0.1` (development only)."
    )
    delivery_concurrency: int = Field(
        default=256,
        ge=4,
        description="Outbound webhooks that one worker process sends at the same time; retries have a quarter of this "
        "number in addition.",
    )
    delivery_timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="Seconds that an endpoint has to answer an outbound webhook."
    )
    redis_url: SecretStr | None = Field(
        default=None,
        description="URL of Redis or Valkey, which refuses over-limit requests before they reach the database (extra "
        "`redis`).",
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
            raise ValueError(f"is not valid JSON: {error}") from None

    @field_validator("log_level", "log_format", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator(
        "database_url",
        "migration_url",
        "secret_key",
        "public_url",
        "redis_url",
        "smtp_host",
        "metrics_token",
        mode="before",
    )
    @classmethod
    def _empty_is_unset(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

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

    @field_validator("jwt_jwks_url")
    @classmethod
    def _https_or_loopback(cls, value: str | None) -> str | None:
        """An attacker who can change the key set on its way can sign tokens for everybody."""
        if value is not None and not value.startswith("https://"):
            host = urlsplit(value).hostname or ""
            if not (value.startswith("http://") and host in ("localhost", "127.0.0.1", "::1")):
                raise ValueError(
                    "must start with https:// (http:// only to this machine): the keys decide which tokens are valid"
                )
        return value

    @model_validator(mode="after")
    def _trusts_no_stranger(self) -> Settings:
        """With `*`, or a network of all addresses, every client could choose its address and escape all limits."""
        everybody = [word for word in self.trusted_proxies if word == "*" or ip_network(word).prefixlen == 0]
        if everybody and self.environment != "development":
            raise ValueError(
                f"ONCEWARD_TRUSTED_PROXIES={everybody[0]} lets every client choose the address that limits and logs see: list the "
                "addresses or networks of your proxies (docs/security.md#behind-a-reverse-proxy)"
            )
        return self

    @model_validator(mode="after")
    def _pool_is_a_range(self) -> Settings:
        if self.pool_min > self.pool_max:
            raise ValueError(f"ONCEWARD_POOL_MIN={self.pool_min} is above ONCEWARD_POOL_MAX={self.pool_max}")
        return self

    @property
    def secret_keys(self) -> tuple[str, ...]:
        """Return the encryption keys, newest first, or an empty tuple if none is set."""
        text = "" if self.secret_key is None else self.secret_key.get_secret_value()
        return tuple(key.strip() for key in text.split(",") if key.strip())

    @property
    def database_servers(self) -> int:
        """Return how many servers the database URL names."""
        return 1 if self.database_url is None else len(servers_of(self.database_url.get_secret_value()))

    @property
    def url(self) -> str:
        """Return the public URL of this service, or the listening address if no public URL is set."""
        return self.public_url or f"http://{self.host}:{self.port}"


class FeatureSettings(EnvironmentModel):
    """Base of the settings that a feature or an app declares: each field is read from `ONCEWARD_<NAME>_<FIELD>`."""
