"""The recipient of a message: a ref (the application's own name for a person), or addresses for one or more
channels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

ChannelName = Literal["email", "slack", "sms", "whatsapp", "push", "dashboard"]
"""The ways to send a message."""
CHANNELS: tuple[ChannelName, ...] = get_args(ChannelName)

PHONE = re.compile(r"^\+[1-9]\d{6,14}$")
EMAIL = re.compile(r"^[^@\s]+@[^@\s]+$")
FIELD: dict[ChannelName, str] = {
    "email": "email",
    "slack": "slack",
    "sms": "phone",
    "whatsapp": "whatsapp",
    "push": "push",
    "dashboard": "ref",
}
"""The field of `Recipient` that holds the address for each channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A person, or a place such as a Slack channel. The sender looks up missing fields by `ref`."""

    ref: str | None = None
    email: str | None = field(default=None, repr=False)
    phone: str | None = field(default=None, repr=False)
    whatsapp: str | None = field(default=None, repr=False)
    slack: str | None = field(default=None, repr=False)
    push: Mapping[str, str] | None = field(default=None, repr=False)
    locale: str | None = None
    timezone: str | None = None

    def address(self, channel: ChannelName) -> str | None:
        """Return the address for a channel, or None if the sender must look it up by `ref`."""
        value: Any = getattr(self, FIELD[channel])
        if channel == "push" and value is not None:
            import orjson

            return orjson.dumps(dict(value)).decode()
        if value is None and channel == "whatsapp":
            value = self.phone
        return value.lower() if value is not None and channel == "email" else value

    def name(self, channel: ChannelName) -> str:
        """Return the name that the message is stored under: the ref or, without one, the address."""
        value = self.ref or self.address(channel)
        if value is None:
            raise ValueError(f"the recipient has no ref and no address for channel {channel!r}: give one of them")
        return value


def as_recipient(to: Any, channel: ChannelName) -> Recipient:
    """Convert the `to` argument: a Recipient, an address, a ref, or an object or mapping with such fields."""
    match to:
        case Recipient():
            return to
        case str():
            return _from_text(to.strip(), channel)
        case Mapping():
            fields: Mapping[str, Any] = to  # pyright: ignore[reportUnknownVariableType]
            return _from_fields(fields.get)
        case _:
            return _from_fields(partial(_attribute, to))


def _from_text(text: str, channel: ChannelName) -> Recipient:
    if not text:
        raise ValueError("to is empty: give an address or the ref of a recipient")
    if channel == "email" and EMAIL.match(text):
        return Recipient(email=text)
    if channel in ("sms", "whatsapp") and PHONE.match(text):
        return Recipient(phone=text, whatsapp=text)
    if channel == "slack" and (text.startswith(("#", "@")) or re.fullmatch(r"[CDGU][A-Z0-9]{6,}", text)):
        return Recipient(slack=text)
    return Recipient(ref=text)


def _attribute(person: object, name: str) -> Any:
    return getattr(person, name, None)


def _from_fields(read: Callable[[str], Any]) -> Recipient:
    ref = read("ref") or read("id") or read("user_id")
    known = {name: read(name) for name in ("email", "phone", "whatsapp", "slack", "push", "locale", "timezone")}
    if ref is None and not any(known[name] for name in ("email", "phone", "whatsapp", "slack", "push")):
        raise ValueError("to has neither an id nor an address: give ref, email, phone, whatsapp, slack or push")
    return Recipient(ref=None if ref is None else str(ref), **known)
