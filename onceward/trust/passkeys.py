"""Passkeys (WebAuthn). A passkey opens a session by itself, because the device checks the person too; it is a second
factor as well.

A ceremony begins with options for the browser and a `Ceremony`, which travels encrypted in the form of the page. It
names the challenge, the site and the person, and ends after some minutes, so that an answer fits this ceremony only.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from onceward.db import Connection, Transaction
from onceward.lazy import lazy_module
from onceward.trust.errors import NotAuthenticated, SecretError, TrustError
from onceward.trust.identity import Identity
from onceward.trust.second_factor import TABLE, check_room, factor_name, record_added
from onceward.trust.secrets import SecretBox

if TYPE_CHECKING:
    import webauthn
    from webauthn.helpers import exceptions, structs
else:
    webauthn = lazy_module("webauthn")
    structs = lazy_module("webauthn.helpers.structs")
    exceptions = lazy_module("webauthn.helpers.exceptions")

LASTS_S = 600
LARGEST_CREDENTIAL = 20_000
PLACE = {"table": "form", "row": "passkey", "column": "ceremony"}


class PasskeyRefused(TrustError):
    """The passkey could not be added. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Website:
    """The site that a passkey belongs to. Browsers give a passkey to no other site."""

    origin: str
    host: str


@dataclass(frozen=True, slots=True)
class Ceremony:
    """One attempt to add or use a passkey. `user_id` is empty until a passkey says who it is."""

    purpose: str
    challenge: str
    origin: str
    host: str
    user_id: str
    ends_at: float

    def seal(self, box: SecretBox) -> str:
        return base64.urlsafe_b64encode(box.seal(json.dumps(asdict(self)).encode(), **PLACE)).decode()

    @classmethod
    def open(cls, box: SecretBox, sealed: str, *, purpose: str) -> Ceremony:
        """Return the ceremony of a form. Raises `NotAuthenticated` if it is not ours, for something else, or over."""
        try:
            found = cls(**json.loads(box.open(base64.urlsafe_b64decode(sealed), **PLACE)))
        except (SecretError, binascii.Error, ValueError, TypeError):
            raise NotAuthenticated("the form of the passkey is not valid") from None
        if found.purpose != purpose or found.ends_at < time.time():
            raise NotAuthenticated("the form of the passkey is too old, or belongs to another page")
        return found


async def begin_adding(conn: Connection, box: SecretBox, site: Website, user_id: UUID) -> dict[str, Any]:
    """Return the options with which a browser creates a passkey, and the sealed ceremony."""
    email = await conn.fetchval("select email from onceward.users where user_id = $1", user_id)
    existing = await conn.fetch(f"select credential_id from {TABLE} where user_id = $1 and kind = 'passkey'", user_id)
    ceremony = _ceremony("add", site, user_id)
    options = webauthn.generate_registration_options(
        rp_id=site.host,
        rp_name="Onceward",
        user_name=email,
        user_id=user_id.bytes,
        challenge=ceremony.challenge.encode(),
        authenticator_selection=structs.AuthenticatorSelectionCriteria(
            resident_key=structs.ResidentKeyRequirement.REQUIRED,
            user_verification=structs.UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[structs.PublicKeyCredentialDescriptor(id=row["credential_id"]) for row in existing],
    )
    return {"options": json.loads(webauthn.options_to_json(options)), "ceremony": ceremony.seal(box)}


async def add_passkey(
    tx: Transaction, box: SecretBox, *, sealed: str, credential: str, name: str, actor: Identity
) -> list[str]:
    """Store the passkey that the browser created. Returns recovery codes if the person has none yet.

    Runs as the engine.
    """
    ceremony = Ceremony.open(box, sealed, purpose="add")
    if actor.member is None or ceremony.user_id != str(actor.member):
        raise NotAuthenticated("the form of the passkey belongs to somebody else")
    await check_room(tx, actor.member)
    try:
        made = webauthn.verify_registration_response(
            credential=_credential(credential),
            expected_challenge=ceremony.challenge.encode(),
            expected_rp_id=ceremony.host,
            expected_origin=ceremony.origin,
            require_user_verification=True,
        )
    except (exceptions.WebAuthnException, ValueError) as error:
        raise PasskeyRefused(f"the passkey was not accepted ({type(error).__name__}): try again") from error
    factor_id = await tx.fetchval(
        f"insert into {TABLE} (user_id, kind, name, confirmed_at, credential_id, public_key, sign_count)"
        " values ($1, 'passkey', $2, onceward.now(), $3, $4, $5) on conflict (credential_id) do nothing "
        "returning factor_id",
        actor.member,
        factor_name(name, "Passkey"),
        made.credential_id,
        made.credential_public_key,
        made.sign_count,
    )
    if factor_id is None:
        raise PasskeyRefused("this passkey has been added already")
    return await record_added(tx, actor.member, factor_id, kind="passkey", actor=actor)


def begin_using(box: SecretBox, site: Website) -> dict[str, Any]:
    """Return the options with which a browser uses any passkey of this site, and the sealed ceremony."""
    ceremony = _ceremony("use", site, None)
    options = webauthn.generate_authentication_options(
        rp_id=site.host,
        challenge=ceremony.challenge.encode(),
        user_verification=structs.UserVerificationRequirement.REQUIRED,
    )
    return {"options": json.loads(webauthn.options_to_json(options)), "ceremony": ceremony.seal(box)}


async def use_passkey(tx: Transaction, box: SecretBox, *, sealed: str, credential: str) -> UUID:
    """Return the person whose passkey this is. Raises `NotAuthenticated`. Runs as the engine."""
    ceremony = Ceremony.open(box, sealed, purpose="use")
    given = _credential(credential)
    row = await tx.fetchrow(
        f"select factor_id, user_id, public_key, sign_count from {TABLE} join onceward.users using (user_id)"
        " where credential_id = $1 and kind = 'passkey' and disabled_at is null for update of second_factors",
        _bytes(given.get("rawId")),
    )
    if row is None:
        raise NotAuthenticated("the passkey is unknown")
    try:
        used = webauthn.verify_authentication_response(
            credential=given,
            expected_challenge=ceremony.challenge.encode(),
            expected_rp_id=ceremony.host,
            expected_origin=ceremony.origin,
            credential_public_key=row["public_key"],
            credential_current_sign_count=row["sign_count"],
            require_user_verification=True,
        )
    except (exceptions.WebAuthnException, ValueError) as error:
        raise NotAuthenticated(f"the passkey was not accepted: {type(error).__name__}") from error
    await tx.execute(
        f"update {TABLE} set sign_count = $2, last_used_at = onceward.now() where factor_id = $1",
        row["factor_id"],
        used.new_sign_count,
    )
    return row["user_id"]


def _ceremony(purpose: str, site: Website, user_id: UUID | None) -> Ceremony:
    challenge = secrets.token_urlsafe(32)
    return Ceremony(purpose, challenge, site.origin, site.host, str(user_id or ""), time.time() + LASTS_S)


def _credential(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text) if len(text) <= LARGEST_CREDENTIAL else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise NotAuthenticated("the browser sent no passkey")
    return cast("dict[str, Any]", found)


def _bytes(value: object) -> bytes:
    try:
        return webauthn.base64url_to_bytes(str(value))
    except (binascii.Error, ValueError):
        raise NotAuthenticated("the browser sent no passkey") from None
