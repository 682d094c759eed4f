"""The settings of the trust feature: the keys of stored secrets, anchors of the audit chain, and how people sign in."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, SecretStr, model_validator

from onceward.settings.environment import PREFIX, FeatureSettings, OptionalSecret, OptionalText


class TrustSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    secret_key: OptionalSecret = Field(
        default=None,
        description="Keys for stored secrets, separated by commas: the first encrypts, all decrypt. If not set, a key "
        "is created in the data directory.",
    )
    secret_key_file: OptionalText = Field(
        default=None,
        description=(
            "File with these keys, for example one that an agent of a key service keeps; instead of "
            "ONCEWARD_SECRET_KEY."
        ),
    )
    secret_key_command: OptionalText = Field(
        default=None,
        description="Command that prints these keys, for example the client of a key service; instead of "
        "ONCEWARD_SECRET_KEY. It runs without a shell when a process starts.",
    )
    audit_anchor_url: OptionalText = Field(
        default=None,
        description="Where the newest link of the audit chain is stored as well: `s3://bucket/prefix` or "
        "`file:///folder`, best where administrators of the database cannot write.",
    )
    session_hours: int = Field(default=12, ge=1, description="Hours that a dashboard session lasts.")
    session_idle_minutes: int = Field(
        default=60,
        ge=0,
        description="Minutes without a request after which a dashboard session ends; 0 means never. Updates of an open "
        "page do not count.",
    )
    reauthentication_minutes: int = Field(
        default=30,
        ge=1,
        description="Minutes after a sign-in during which a session may create keys, secrets "
        "and exports; after that it must confirm its identity first.",
    )
    second_factor: Literal["optional", "admins", "required"] = Field(
        default="optional",
        description=(
            "Who must sign in to the dashboard with a second factor. An organization can require it for its "
            "members too."
        ),
    )
    oidc_issuer: str | None = Field(
        default=None, description="URL of the OpenID Connect provider for signing in to the dashboard."
    )
    oidc_client_id: str | None = Field(default=None, description="Client id of the dashboard at this provider.")
    oidc_client_secret: SecretStr | None = Field(
        default=None, description="Client secret at this provider; a public client has none."
    )
    oidc_name: str = Field(
        default="single sign-on", description="Name of the provider on the button of the login page."
    )
    oidc_has_second_factor: bool = Field(
        default=False,
        description="The provider asks everybody for a second factor, so the dashboard does not ask again. A token "
        "whose `amr` says so counts in any case.",
    )

    @model_validator(mode="after")
    def _single_sign_on_is_complete(self) -> TrustSettings:
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise ValueError("ONCEWARD_OIDC_ISSUER and ONCEWARD_OIDC_CLIENT_ID need each other: set both or none")
        return self

    @model_validator(mode="after")
    def _one_source_of_keys(self) -> TrustSettings:
        sources = {
            "ONCEWARD_SECRET_KEY": self.secret_key,
            "ONCEWARD_SECRET_KEY_FILE": self.secret_key_file,
            "ONCEWARD_SECRET_KEY_COMMAND": self.secret_key_command,
        }
        named = [name for name, value in sources.items() if value is not None]
        if len(named) > 1:
            raise ValueError(f"{' and '.join(named)} exclude each other: set one of them")
        return self

    @property
    def has_secret_key(self) -> bool:
        """Return whether the settings name the keys, so that all nodes have the same."""
        return any((self.secret_key, self.secret_key_file, self.secret_key_command))
