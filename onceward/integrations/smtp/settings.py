"""The settings of the mail server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from onceward.settings import FeatureSettings
from onceward.settings.environment import OptionalText


class SmtpSettings(FeatureSettings):
    host: OptionalText = Field(
        default=None, description="Mail server; if not set, emails are written to the data directory."
    )
    port: int = Field(default=587, ge=1, le=65535, description="Port of the mail server.")
    username: str | None = Field(default=None, description="User name at the mail server.")
    password: SecretStr | None = Field(default=None, description="Password at the mail server.")
    tls: Literal["starttls", "implicit", "none"] = Field(
        default="starttls", description="Encryption of the connection to the mail server."
    )
