"""The settings of Web Push: the key that identifies the sender."""

from __future__ import annotations

from pydantic import Field, SecretStr

from onceward.settings import FeatureSettings


class WebPushSettings(FeatureSettings):
    private_key: SecretStr | None = Field(default=None, description="VAPID private key (base64url).")
    subject: str | None = Field(default=None, description="VAPID contact: a `mailto:` or `https:` URL.")
