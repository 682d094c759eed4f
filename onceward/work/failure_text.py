"""What a log line says about a handler's error: its message without private data, and the user's own line of code.

The message of an exception is written by anybody: a library may quote a request body, an address or a token in it. So a
log line has a short, scrubbed form. The full message is in `attempts`, where row-level security protects it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path

import asyncpg

MAX_LOGGED_MESSAGE = 300
REMOVED = "[...]"

LIBRARIES = ("/site-packages/", "/dist-packages/", "<frozen ", ".pyx:")
ENGINE = f"{Path(__file__).parents[1]}/"
STANDARD_LIBRARY = f"{Path(traceback.__file__).parent}/"

# PostgreSQL quotes the values of a row in these lines, and pydantic the input.
QUOTING_LINES = re.compile(r"\n\s*(DETAIL|CONTEXT|QUERY|WHERE|HINT):.*|\n\s*For further information visit.*", re.DOTALL)
PRIVATE = (
    (re.compile(r"input_value=.*?(?=, input_type=|$)", re.DOTALL), f"input_value={REMOVED}"),
    (re.compile(r"(://)[^/@\s]+@"), rf"\1{REMOVED}@"),
    (re.compile(r"[^\s'\"<>(,;:=]+@[^\s'\">),;]+"), REMOVED),  # an email address
    (
        re.compile(
            r"(?i)\b([\w-]*(?:secret|passw(?:or)?d|token|api[_-]?key|authorization|cookie|signature)"
            r"[\w-]*['\"]?\s*[:=]\s*)"
            r"(?:(?:bearer|basic)\s+)?\S+"
        ),
        rf"\1{REMOVED}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+\S+"), rf"\1 {REMOVED}"),
    (re.compile(r"[{\[][^{}\[\]]*[\"'].*[}\]]", re.DOTALL), REMOVED),  # a quoted JSON document or a dict
    (re.compile(r"\+?\d[\d ()/-]{7,}\d"), REMOVED),  # a telephone, card or account number
    (re.compile(r"\b[\w+/-]{32,}={0,2}"), REMOVED),  # a token or a key
    (re.compile(r"(['\"])(?:(?!\1).){41,}\1", re.DOTALL), REMOVED),  # a long quotation
)
DENIED = re.compile(r"permission denied for (?P<kind>table|view|relation|sequence|schema|function) (?P<name>\S+)")


def loggable(message: str) -> str:
    """Return a message in one line of at most 300 characters, without addresses, secrets and quoted documents."""
    text = QUOTING_LINES.sub("", message[:4000])
    for pattern, replacement in PRIVATE:
        text = pattern.sub(replacement, text)
    text = " ".join(text.split())
    return text if len(text) <= MAX_LOGGED_MESSAGE else text[: MAX_LOGGED_MESSAGE - 3] + "..."


def own_frame(frames: Sequence[str]) -> str | None:
    """Return the innermost frame of the user's own code; if there is none, the innermost frame."""
    for frame in reversed(frames):
        if not _is_foreign(frame):
            return frame
    return frames[-1] if frames else None


def kept_frames(frames: Iterable[traceback.FrameSummary], *, most: int = 20) -> list[str]:
    """Return the last frames, and before them the user's innermost frame if a deep library hides it."""
    every = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    last = every[-most:]
    own = own_frame(every)
    return last if own is None or own in last else [own, *last[1:]]


def permission_hint(error: BaseException) -> str | None:
    """Return the statement that grants a handler what PostgreSQL has just refused, or None for another error."""
    if not isinstance(error, asyncpg.InsufficientPrivilegeError) or not (match := DENIED.search(str(error))):
        return None
    kind, name = match["kind"], match["name"]
    grant = {
        "sequence": f"grant usage on sequence {name} to onceward_app",
        "schema": f"grant usage on schema {name} to onceward_app",
        "function": f"grant execute on function {name} to onceward_app",
    }.get(kind, f"grant select, insert, update, delete on {name} to onceward_app")
    return f"handlers act as the role onceward_app; add to a migration of the app: {grant}"


def _is_foreign(frame: str) -> bool:
    if any(part in frame for part in LIBRARIES):
        return True
    return frame.startswith((ENGINE, STANDARD_LIBRARY))
