"""Mail addresses as SMTP carries them: international domains as A-labels, and letters beyond ASCII before the @ with
SMTPUTF8.

RFC 5890 gives every domain an ASCII form, which every server understands. The part before the @ has none: RFC 6531
(SMTPUTF8) carries it as UTF-8, if the server offers that.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

import idna

VERP = re.compile(r"(.+)\+m([0-9]{1,18})-([0-9a-f]{12})@(.+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WireAddress:
    """An address as it is sent. With `needs_utf8` the server must offer SMTPUTF8."""

    text: str
    needs_utf8: bool


def wire_address(address: str) -> WireAddress:
    """Return the address as SMTP carries it. Raises ValueError if it is not an address, or its domain is not a
    domain."""
    if address.isascii():
        return WireAddress(address, needs_utf8=False)
    if any(each.isspace() or not each.isprintable() for each in address):
        raise ValueError("the address contains white space or control characters")
    local, at, domain = address.rpartition("@")
    if not at or not local or not domain:
        raise ValueError("the address has no @")
    try:
        ascii_domain = domain if domain.isascii() else idna.encode(domain, uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"the domain of the address is not valid: {error}") from None
    return WireAddress(f"{local}@{ascii_domain}", needs_utf8=not local.isascii())


def bounce_address(return_path: str, message: int, secrets: Sequence[bytes]) -> str:
    """Return the envelope sender of one message (VERP), so that a bounce names its message.

    The code at the end proves that we wrote it: nobody can make up bounces about the messages of others.
    """
    local, _, domain = return_path.rpartition("@")
    return f"{local}+m{message}-{_code(message, secrets[0])}@{domain}"


def message_of_bounce(address: str, return_path: str, secrets: Sequence[bytes]) -> int | None:
    """Return the message that an envelope sender of ours names, or None if it is not ours. Old keys count too."""
    local, _, domain = return_path.rpartition("@")
    match = VERP.fullmatch(address.strip().strip("<>"))
    if match is None or (match[1].lower(), match[4].lower()) != (local.lower(), domain.lower()):
        return None
    message = int(match[2])
    codes = [_code(message, each) for each in secrets]
    return message if any(hmac.compare_digest(match[3].lower(), code) for code in codes) else None


def _code(message: int, secret: bytes) -> str:
    return hmac.new(secret, f"bounce:{message}".encode(), hashlib.sha256).hexdigest()[:12]
