"""Mails as the standard library builds them, without work that it repeats for every mail.

For each header `email` creates a class and parses the value, although most values are the same in every mail (sender,
content types); for each mail with several parts it compiles a pattern for the boundary. Together that took a
millisecond.
"""

from __future__ import annotations

import secrets
from email.generator import BytesGenerator
from email.headerregistry import HeaderRegistry
from email.message import EmailMessage
from email.policy import EmailPolicy
from functools import lru_cache
from io import BytesIO
from typing import Any

REPEATED = frozenset({"from", "auto-submitted", "mime-version", "content-type", "content-transfer-encoding"})
"""Headers whose values repeat. Headers about a recipient are not kept in memory."""


class _Headers(HeaderRegistry):
    """Keeps the class of each header, and the headers of `REPEATED`. A header is never changed, so mails can share
    it."""

    def __init__(self) -> None:
        super().__init__()
        self._class_of = lru_cache(maxsize=100)(super().__getitem__)
        self._kept = lru_cache(maxsize=500)(super().__call__)

    def __getitem__(self, name: str) -> Any:
        return self._class_of(name.lower())

    def __call__(self, name: str, value: Any) -> Any:
        if _is_repeated(name, value):
            return self._kept(name, value)
        return super().__call__(name, value)


class _MailPolicy(EmailPolicy):
    """Folds each of the repeated headers into lines once."""

    def fold_binary(self, name: str, value: str) -> bytes:
        if _is_repeated(name, value):
            return _folded(name, value)
        return super().fold_binary(name, value)


def _is_repeated(name: str, value: str) -> bool:
    # The boundary of a mail is in the header of its content type, and only in this mail.
    return name.lower() in REPEATED and "boundary=" not in value


@lru_cache(maxsize=500)
def _folded(name: str, value: str) -> bytes:
    return EmailPolicy.fold_binary(POLICY, name, value)


POLICY = _MailPolicy(header_factory=_Headers())


class _Generator(BytesGenerator):
    """Writes a mail with a random boundary that occurs nowhere in it."""

    @classmethod
    def _make_boundary(cls, text: bytes | None = None) -> str:
        while True:
            boundary = f"=_{secrets.token_hex(16)}"
            if text is None or f"--{boundary}".encode() not in text:
                return boundary


UTF8_POLICY = POLICY.clone(utf8=True)


def new_mail(*, utf8: bool = False) -> EmailMessage:
    """Return an empty mail. With `utf8` its headers are UTF-8, for a relay that offers SMTPUTF8."""
    return EmailMessage(UTF8_POLICY if utf8 else POLICY)


def mail_bytes(message: EmailMessage) -> bytes:
    """Return the mail as it is sent or stored."""
    file = BytesIO()
    _Generator(file, mangle_from_=False, policy=message.policy).flatten(message)
    return file.getvalue()
