"""What an operator was shown before a replay, signed by the server: a form cannot claim another rehearsal."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from onceward import exact_json
from onceward.trust import SecretBox
from onceward.web.dashboard.action import ActionRefused

PURPOSE = b"approval of a replay"


@dataclass(frozen=True, slots=True)
class Approval:
    """What was shown, and when."""

    described: str
    rehearsal: str
    shown_at: str


def seal(box: SecretBox, described: str, rehearsal: str, ids: str) -> str:
    """Return a text for the form of the page that shows this rehearsal of these dead letters."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    content = exact_json.dumps([described, rehearsal, now, _digest(ids)]).encode()
    text = base64.urlsafe_b64encode(content).decode()
    return f"{text}.{_signatures(box, content)[0]}"


def opened(box: SecretBox, sealed: str, form: Mapping[str, str]) -> Approval:
    """Return what was shown. Raises `ActionRefused` if the server did not make this text, or made it for other ids."""
    text, _, signature = sealed.partition(".")
    try:
        content = base64.urlsafe_b64decode(text)
    except ValueError:
        content = b""
    if not any(hmac.compare_digest(one.encode(), signature.encode()) for one in _signatures(box, content)):
        raise ActionRefused("the approval was not made by this server: load the page again")
    described, rehearsal, shown_at, ids = exact_json.loads(content)
    if ids != _digest(form.get("ids", "")):
        raise ActionRefused("other dead letters were rehearsed than would be replayed: load the page again")
    return Approval(described, rehearsal, shown_at)


def _signatures(box: SecretBox, content: bytes) -> list[str]:
    return [hmac.digest(key, content, "sha256").hex() for key in box.derived(PURPOSE)]


def _digest(ids: str) -> str:
    return sha256(ids.encode()).hexdigest()
