"""Who a message goes to: a name that the application uses, or an address, for one channel or several."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args

ChannelName = Literal["email", "slack", "sms", "whatsapp", "push", "dashboard"]
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
"""Where the address of a channel is found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """A person, or a place such as a Slack channel. With a `ref` what is missing is looked up when it is sent."""

    ref: str | None = None
    email: str | None = field(default=None, repr=False)
    phone: str | None = field(default=None, repr=False)
    whatsapp: str | None = field(default=None, repr=False)
    slack: str | None = field(default=None, repr=False)
    push: Mapping[str, str] | None = field(default=None, repr=False)
    locale: str | None = None
    timezone: str | None = None

    def address(self, channel: ChannelName) -> str | None:
        """Where this channel reaches them; None: look it up by `ref`."""
        found: Any = getattr(self, FIELD[channel])
        if channel == "push" and found is not None:
            import orjson

            return orjson.dumps(dict(found)).decode()
        if found is None and channel == "whatsapp":
            found = self.phone
        return found.lower() if found is not None and channel == "email" else found

    def name(self, channel: ChannelName) -> str:
        """What the message is filed under: the ref, or the address."""
        found = self.ref or self.address(channel)
        if found is None:
            raise ValueError(f"the recipient has neither a ref nor an address for channel {channel!r}")
        return found


def as_recipient(to: Any, channel: ChannelName) -> Recipient:
    """Whatever was given as `to`: a Recipient, an address, a ref, or an object or mapping with such fields."""
    match to:
        case Recipient():
            return to
        case str():
            return _from_text(to.strip(), channel)
        case Mapping():
            given: Mapping[str, Any] = to  # pyright: ignore[reportUnknownVariableType]
            return _from_fields(given.get)
        case _:
            return _from_fields(partial(_attribute, to))


def _from_text(text: str, channel: ChannelName) -> Recipient:
    if not text:
        raise ValueError("to is empty: give an address or the name of a recipient")
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
