"""Ticket codes, payloads of their QR codes, and tokens of order pages and doors.

All are random or signed, so nobody can guess them. QR codes are signed with a private key (`ticket_signatures`):
devices at
the door check them with the public key, and cannot make tickets.
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from uuid import UUID

from onceward.trust import ring_keys
from onceward_apps.ticketing import ticket_signatures
from onceward_apps.ticketing.ticket_signatures import ALPHABET

READ_AS = str.maketrans({"I": "1", "L": "1", "O": "0", "U": "V"})
CODE = re.compile(rf"[{ALPHABET}]{{12}}")
TOKEN_CHARACTERS = 26
QR_PREFIX = "OW2"


def new_ticket_code() -> str:
    """Return a new code of twelve characters with 60 random bits: `3KQR-7F92-4M1X`."""
    bits = secrets.randbits(60)
    return grouped("".join(ALPHABET[(bits >> 5 * n) & 31] for n in range(12)))


def new_reference() -> str:
    """Return what a buyer writes on a bank transfer: ten characters with 50 random bits."""
    bits = secrets.randbits(50)
    return "".join(ALPHABET[(bits >> 5 * n) & 31] for n in range(10))


def references_in(text: str) -> list[str]:
    """Return what could be a reference in the text of a bank transfer: banks change case, spaces and line breaks."""
    plain = re.sub(r"[\s\-]", "", text).upper().translate(READ_AS)
    return [plain[n : n + 10] for n in range(max(0, len(plain) - 9))]


def grouped(code: str) -> str:
    return "-".join(code[n : n + 4] for n in range(0, len(code), 4))


def read_code(text: str) -> str | None:
    """Return the code in its normal form: lower case, other dashes and O for 0 are accepted. None: not a code."""
    plain = re.sub(r"[\s\-\u2010-\u2015_.]", "", text).upper().translate(READ_AS)
    return grouped(plain) if CODE.fullmatch(plain) else None


@dataclass(frozen=True, slots=True)
class Presented:
    """A code shown to the scanner, and whether it had a signature and the signature was valid."""

    code: str
    signed: bool
    genuine: bool


def qr_payload(key: bytes, event_id: UUID, code: str) -> str:
    """Return the text of a ticket's QR code, in the character set that makes QR codes small."""
    plain = code.replace("-", "")
    return f"{QR_PREFIX}.{plain}.{ticket_signatures.sign(key, event_id, plain)}"


def read_presented(key: bytes, event_id: UUID, text: str) -> Presented | None:
    """Read the text that a camera saw or a person typed. None: it is not a ticket."""
    text = text.strip()
    head, dot, rest = text.partition(".")
    if dot and head.upper() == QR_PREFIX:
        plain, _, signature = rest.partition(".")
        code = read_code(plain)
        if code is None:
            return None
        genuine = ticket_signatures.is_signed(key, event_id, code.replace("-", ""), signature.upper())
        return Presented(code, True, genuine)
    code = read_code(text)
    return None if code is None else Presented(code, False, False)


def order_token(key: bytes, checkout_id: UUID, version: int) -> str:
    """Return the token that gives access to one order. It is derived from the key, so it is not stored.

    It ends with the version of the order's links: a higher version revokes all tokens before it.
    """
    return _sign(key, f"order:{checkout_id}:{version}") + str(version)


def is_order_token(key: bytes, checkout_id: UUID, version: int, token: str) -> bool:
    signature = token[:TOKEN_CHARACTERS]
    is_signed = _is_signed(key, f"order:{checkout_id}:{version}", signature)
    return is_signed and has_version(token, version)


def has_version(token: str, version: int) -> bool:
    """Return whether the token of an order, whose signature was checked before, has not been revoked since."""
    return token[TOKEN_CHARACTERS:] == str(version)


def holder_token(key: bytes, ticket_id: UUID) -> str:
    """Return the token of the person who received one ticket by transfer. Each transfer creates a ticket with a new
    id."""
    return _sign(key, f"holder:{ticket_id}")


def is_holder_token(key: bytes, ticket_id: UUID, token: str) -> bool:
    return _is_signed(key, f"holder:{ticket_id}", token)


def door_token(key: bytes, door_id: UUID) -> str:
    """Return the token of a door: with it, a device admits guests of the door's event and does nothing else."""
    return _sign(key, f"door:{door_id}")


def is_door_token(key: bytes, door_id: UUID, token: str) -> bool:
    return _is_signed(key, f"door:{door_id}", token)


def waitlist_token(key: bytes, entry_id: UUID) -> str:
    """Return the token of somebody who waits: with it they see their place in the line, take the offer, or leave."""
    return _sign(key, f"waitlist:{entry_id}")


def is_waitlist_token(key: bytes, entry_id: UUID, token: str) -> bool:
    return _is_signed(key, f"waitlist:{entry_id}", token)


def waitlist_basket(key: bytes, entry_id: UUID) -> str:
    """Return the basket that holds the places of an offer."""
    return _sign(key, f"basket of waitlist:{entry_id}")


def code_digest(event_id: UUID, code: str) -> str:
    """Return what a door keeps of a ticket code, to recognise it without a network: nobody can print a ticket from
    it."""
    return sha256(f"{event_id}:{code.replace('-', '')}".encode()).hexdigest()[:32]


def new_basket() -> str:
    """Return a random token that identifies a buyer without an account."""
    return secrets.token_urlsafe(18)


def basket_name(token: str) -> str:
    """Return the basket's name in the database: a hash, so that a reader of the database cannot act for the buyer."""
    return sha256(token.encode()).hexdigest()[:32]


def _is_signed(ring: bytes, text: str, signature: str) -> bool:
    """Return whether a key of the ring has made this signature."""
    return any(hmac.compare_digest(_sign(key, text).encode(), signature.encode()) for key in ring_keys(ring))


def _sign(ring: bytes, text: str) -> str:
    digest = int.from_bytes(hmac.new(ring_keys(ring)[0], text.encode(), sha256).digest(), "big")
    return "".join(ALPHABET[(digest >> (5 * n)) & 31] for n in range(TOKEN_CHARACTERS))
