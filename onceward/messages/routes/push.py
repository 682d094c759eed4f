"""HTTP routes of Web Push: the public key for browsers, and the subscription of a signed-in user."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field, SecretStr, StringConstraints

from onceward.db import Database
from onceward.integrations.webpush.client import VapidKey
from onceward.messages import Recipient
from onceward.messages.preferences import forget_push, save_recipient
from onceward.services import load_integration_settings
from onceward.settings import Settings
from onceward.trust import Identity, NotAllowed, transaction_for
from onceward.web.api import database_of, settings_of
from onceward.web.auth import require
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.fields import example
from onceward.web.problems import Problem

Db = Annotated[Database, Depends(database_of)]
TheSettings = Annotated[Settings, Depends(settings_of)]
User = Annotated[Identity, Depends(require("user"))]
Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+={0,2}$", min_length=16, max_length=200)]


class PublicKey(BaseModel):
    """The VAPID key that `pushManager.subscribe` needs as `applicationServerKey` (base64url)."""

    public_key: str


class PushKeys(BaseModel):
    p256dh: Base64
    auth: Base64


class PushSubscription(BaseModel):
    """A subscription as `PushSubscription.toJSON()` writes it in the browser."""

    model_config = example(
        endpoint="https://push.example/send/abc",
        keys={
            "p256dh": "BNcRdreALRFXTkOOUHK1EtK2wtaz5Ry4YfYCA_0QTpQtUbVlUls0VJXg7A8u-Ts1",
            "auth": "tBHItJI5svbpez7KI4CCXg",
        },
    )

    endpoint: str = Field(max_length=2000, pattern=r"^https://")
    keys: PushKeys


router = APIRouter(prefix="/api/v1/push", tags=["web push"])


@router.get("/public-key", responses={404: {"description": "Web Push is not configured."}})
@exposed(credential=ANYBODY)
async def read_push_key(settings: TheSettings) -> PublicKey:
    """Return the public key. Needs no authentication."""
    private_key: SecretStr | None = load_integration_settings("webpush", settings).private_key
    if private_key is None:
        raise Problem(404, "Web Push is not configured: set ONCEWARD_WEBPUSH_PRIVATE_KEY and ONCEWARD_WEBPUSH_SUBJECT")
    return PublicKey(public_key=VapidKey(private_key.get_secret_value()).public)


@router.put("/subscription", status_code=204)
@exposed("nothing")
async def save_push_subscription(db: Db, identity: User, new: PushSubscription) -> None:
    """Save the browser of the signed-in user. It replaces an earlier one; messages over `push` to the user id reach
    it."""
    push = {"endpoint": new.endpoint, "p256dh": new.keys.p256dh, "auth": new.keys.auth}
    async with transaction_for(db, identity) as tx:
        await save_recipient(tx, Recipient(ref=_user(identity), push=push))


@router.delete("/subscription", status_code=204)
@exposed("nothing")
async def delete_push_subscription(db: Db, identity: User) -> None:
    """Remove the browser of the signed-in user. Messages over `push` then fail for this user."""
    async with transaction_for(db, identity) as tx:
        await forget_push(tx, _user(identity))


def _user(identity: Identity) -> str:
    if identity.kind == "key":
        raise NotAllowed("a subscription belongs to a user: send the JWT of the user, not an API key")
    return identity.principal.ref
