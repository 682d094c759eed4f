"""The settings of PayPal that are not part of an account."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from onceward.settings import FeatureSettings


class PayPalSettings(FeatureSettings):
    mode: Literal["live", "sandbox"] = Field(default="live", description="Which of PayPal's two systems is called.")
