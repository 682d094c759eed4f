"""The encodings of signatures, keys and timestamps that senders use."""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final, Literal

from onceward.webhooks.provider import Rejected

Encoding = Literal["hex", "base64", "base64url"]
KeyEncoding = Literal["text", "base64", "hex", "whsec", "sha1"]
TimestampUnit = Literal["s", "ms", "any", "iso", "http"]
"""`any` is for senders whose documents contradict each other: seconds or milliseconds, distinguished by their size."""

# This number of seconds is the year 5138; the same number of milliseconds is 1973.
_LARGEST_SECONDS: Final = 100_000_000_000


def decode(encoding: Encoding, text: str) -> bytes | None:
    """Return the bytes of a signature, or None if the text is not in that encoding."""
    try:
        if encoding == "hex":
            return binascii.unhexlify(text)
        if encoding == "base64url":
            text = text.replace("-", "+").replace("_", "/")
            text += "=" * (-len(text) % 4)
        return base64.b64decode(text, validate=True)
    except ValueError:
        return None


def encode(encoding: Encoding, raw: bytes) -> str:
    """Encode the bytes of a signature: the inverse of `decode`."""
    if encoding == "hex":
        return raw.hex()
    if encoding == "base64url":
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return base64.b64encode(raw).decode()


def decode_key(form: KeyEncoding, secret: str) -> bytes:
    """Return the key bytes of a secret as a sender shows it. The ValueError for a malformed secret does not contain
    it."""
    match form:
        case "text":
            return secret.encode()
        case "sha1":
            return hashlib.sha1(secret.encode(), usedforsecurity=False).digest()
        case "hex":
            try:
                return binascii.unhexlify(secret)
            except ValueError:
                raise ValueError("it is not hexadecimal") from None
        case "base64" | "whsec":
            # Supabase writes the version before the prefix.
            text = secret.removeprefix("v1,").removeprefix("whsec_") if form == "whsec" else secret
            text = text.rstrip("=")
            try:
                # Some tools drop the padding when they show a secret.
                return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
            except ValueError:
                raise ValueError("it is not base64") from None


def read_timestamp(text: str, unit: TimestampUnit) -> float:
    """Return Unix seconds. Reject a text that is not a time in this unit, and a number in the other unit."""
    if unit == "iso" or unit == "http":
        return _read_date(text, unit)
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise Rejected("bad_timestamp", "the timestamp is not a whole number")
    number = int(text)
    in_ms = number > _LARGEST_SECONDS
    if unit != "any" and in_ms != (unit == "ms"):
        raise Rejected("bad_timestamp", f"the timestamp is not in {'milliseconds' if unit == 'ms' else 'seconds'}")
    return number / 1000 if in_ms else float(number)


def write_timestamp(now: float, unit: TimestampUnit) -> str:
    """Return a time as a sender writes it: the inverse of `read_timestamp`."""
    match unit:
        case "s":
            return str(int(now))
        case "ms" | "any":
            return str(int(now * 1000))
        case "iso":
            return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case "http":
            return format_datetime(datetime.fromtimestamp(int(now), UTC), usegmt=True)


def check_age(made_at: float | None, tolerance_s: float, now: float) -> None:
    """Raise Rejected if `made_at` differs from `now` by more than the tolerance, in either direction."""
    if made_at is not None and abs(now - made_at) > tolerance_s:
        side = "old" if made_at < now else "in the future"
        raise Rejected(
            "stale_timestamp", f"the signature is {abs(now - made_at):.0f} s {side}; the limit is {tolerance_s} s"
        )


def _read_date(text: str, unit: Literal["iso", "http"]) -> float:
    try:
        moment = datetime.fromisoformat(text) if unit == "iso" else parsedate_to_datetime(text)
        # Orb and others write UTC without saying so.
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        name = "ISO 8601" if unit == "iso" else "an HTTP date"
        raise Rejected("bad_timestamp", f"the timestamp is not {name}") from None
