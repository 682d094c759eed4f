"""Mails with a text and an HTML body, written without the message objects of the standard library.

Building such an object and writing it took two thirds of the time of a mail. Headers that need more than one line,
encoded words or quoting are still written by the standard library.
"""

from __future__ import annotations

import binascii
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache

from onceward.messages.mail import POLICY, REPEATED

LONGEST_LINE = 78
SHORT_LINES = re.compile(rb"(?:[\t\x20-\x7e]{0,78}\n)*")
"""A body that needs no encoding. Everything else is quoted-printable or base64."""
NON_ASCII = bytes(range(0x80, 0x100))
PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
ADDRESSES = frozenset({"from", "to"})
ADDRESS = re.compile(r"[A-Za-z0-9+_-]+(?:\.[A-Za-z0-9+_-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
"""An address that is written as it is. `Name <address>` and others may need quotes or an encoded word."""
BARE_ADDRESS = re.compile(r"[^\s<>\"(),:;\\\[\]@]+@[A-Za-z0-9.-]+")
"""An address without a name, whose domain is in its ASCII form."""


@dataclass(frozen=True, slots=True)
class PlainMail:
    """A mail with these headers, a text body and the same content as HTML."""

    headers: tuple[tuple[str, str], ...]
    text: str
    html: str

    def as_bytes(self, *, message_id: str, date: str) -> bytes:
        """Return the mail as it is sent or stored. Raises `ValueError` if a header contains a line break."""
        headers = [_line(name, value) for name, value in (*self.headers, ("Message-ID", message_id), ("Date", date))]
        parts = [_part(b"plain", self.text), _part(b"html", self.html)]
        boundary = _boundary(parts)
        return b"".join(
            (
                *headers,
                b'MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary="',
                *(boundary, b'"\n\n'),
                *(piece for part in parts for piece in (b"--", boundary, b"\n", part, b"\n")),
                *(b"--", boundary, b"--\n"),
            )
        )


def _line(name: str, value: str) -> bytes:
    return _kept_line(name, value) if name.lower() in REPEATED else _written(name, value)


def _written(name: str, value: str) -> bytes:
    """Return a header with its line end."""
    if name.lower() in ADDRESSES and not value.isascii() and BARE_ADDRESS.fullmatch(value):
        # Letters beyond ASCII before the @ cannot be encoded; the relay offers SMTPUTF8.
        return f"{name}: {value}\n".encode()
    form = ADDRESS if name.lower() in ADDRESSES else PRINTABLE
    # "=?" begins an encoded word, so it must be encoded itself.
    if len(name) + 2 + len(value) <= LONGEST_LINE and "=?" not in value and form.fullmatch(value):
        return f"{name}: {value}\n".encode("ascii")
    parsed_name, parsed = POLICY.header_store_parse(name, value)
    return POLICY.fold_binary(parsed_name, parsed)


_kept_line = lru_cache(maxsize=500)(_written)


def _part(subtype: bytes, text: str) -> bytes:
    """Return one body with its headers."""
    lines = text.encode("utf-8").splitlines()
    body = b"\n".join(lines) + b"\n"
    if SHORT_LINES.fullmatch(body):
        encoding = b"7bit"
    elif 6 * (len(body) - len(body.translate(None, NON_ASCII))) > len(body):
        # Quoted-printable triples such bytes; base64 adds a third to all.
        encoding, body = b"base64", b"".join(_base64_lines(body))
    else:
        encoding, body = b"quoted-printable", binascii.b2a_qp(body)
    return b"".join(
        (
            *(b"Content-Type: text/", subtype, b'; charset="utf-8"\nContent-Transfer-Encoding: ', encoding, b"\n\n"),
            body,
        )
    )


def _base64_lines(body: bytes) -> list[bytes]:
    return [binascii.b2a_base64(body[start : start + 57]) for start in range(0, len(body), 57)]


def _boundary(parts: list[bytes]) -> bytes:
    """Return a random line that occurs in none of the parts."""
    while True:
        boundary = f"=_{secrets.token_hex(16)}".encode()
        if not any(boundary in part for part in parts):
            return boundary
