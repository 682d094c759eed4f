"""The settings of signing in: dashboard sessions, the second factor, single sign-on, and the tokens of end users."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from onceward.settings.environment import EnvironmentModel


class SignInSettings(EnvironmentModel):
    """The part of `Settings` that says how people sign in and how long a sign-in lasts."""

    session_hours: int = Field(default=12, ge=1, description="Hours that a dashboard session lasts.")
    session_idle_minutes: int = Field(
        default=60,
        ge=0,
        description="Minutes without a request after which a dashboard session ends; 0 means never. Updates of an open page "
        "do not count.",
    )
    reauthentication_minutes: int = Field(
        default=30,
        ge=1,
        description="Minutes after a sign-in during which a session may create keys, secrets and exports; after that it must "
        "confirm its identity first.",
    )
    second_factor: Literal["optional", "admins", "required"] = Field(
        default="optional",
        description="Who must sign in to the dashboard with a second factor. An organization can require it for its members too.",
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
        description="The provider asks everybody for a second factor, so the dashboard does not ask again. A token whose "
        "`amr` says so counts in any case.",
    )
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

    @model_validator(mode="after")
    def _single_sign_on_is_complete(self) -> SignInSettings:
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise ValueError("ONCEWARD_OIDC_ISSUER and ONCEWARD_OIDC_CLIENT_ID need each other: set both or none")
        return self
