"""The families of verification schemes. A sender is described by one value:

`Hmac(header=..., signed="{timestamp}.{body}")`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.webhooks.families.hmac_signature import Hmac
from onceward.webhooks.families.json_web_token import Jwt
from onceward.webhooks.families.public_key import PublicKey
from onceward.webhooks.families.published_key import PublishedJwt, PublishedKey
from onceward.webhooks.families.standard_webhooks import StandardWebhooks
from onceward.webhooks.families.tokens import Basic, Token
from onceward.webhooks.families.verification import FetchingVerification, Verification

FAMILIES: Final[Mapping[str, type[Verification]]] = {
    "hmac": Hmac,
    "standard": StandardWebhooks,
    "public_key": PublicKey,
    "jwt": Jwt,
    "token": Token,
    "basic": Basic,
}

__all__ = [
    "FAMILIES",
    "Basic",
    "FetchingVerification",
    "Hmac",
    "Jwt",
    "PublicKey",
    "PublishedJwt",
    "PublishedKey",
    "StandardWebhooks",
    "Token",
    "Verification",
]
