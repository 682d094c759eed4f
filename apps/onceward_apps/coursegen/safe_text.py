"""Make text from people and models harmless before it is stored: no HTML, no dangerous links, no control characters.

The pages never treat stored text as HTML. This is the second lock, for exports and for programs that render them.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

SAFE_SCHEMES = frozenset({"http", "https", "mailto", ""})
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_IMAGE = re.compile(r"!\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)")
_LINK = re.compile(r"\[([^\]\n]{0,300})\]\(([^)\n]{0,2000})\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:\s*(\S+).*$", re.MULTILINE)


def plain_text(text: str, *, most: int) -> str:
    """Return one line or paragraph without markup and control characters, at most this long."""
    cleaned = _storable(text).replace("\r\n", "\n").strip()
    return cleaned[:most].rstrip()


def markdown(text: str, *, most: int) -> str:
    """Return Markdown without HTML, remote images and links of dangerous schemes. Code blocks stay as they are."""
    cleaned = _storable(text).replace("\r\n", "\n").strip()[:most]
    parts: list[str] = []
    for code, part in _by_fence(cleaned):
        parts.append(part if code else _harmless(part))
    return "".join(parts).rstrip()


def unfinished(text: str, *, most: int) -> str:
    """Return the beginning of a text as it can be stored. Its end stays as it is, for what follows."""
    return _storable(text)[:most]


def heading(text: str) -> str:
    """Return a stored text as one line of Markdown, for titles in exports."""
    return _harmless(" ".join(text.split()))


def _storable(text: str) -> str:
    return _CONTROL.sub("", text.encode("utf-8", "replace").decode("utf-8"))


def _by_fence(text: str) -> list[tuple[bool, str]]:
    """Split a text into prose and fenced code. A fence that is never closed is closed at the end of the text."""
    parts: list[tuple[bool, str]] = []
    start = 0
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            parts.append((False, text[start : fence.start()]))
            opened, start = fence, fence.start()
        elif fence[1].startswith(opened[1]):
            parts.append((True, text[start : fence.end()]))
            opened, start = None, fence.end()
    rest = text[start:]
    parts.append((opened is not None, rest if opened is None else f"{rest.rstrip()}\n{opened[1]}"))
    return parts


def _harmless(prose: str) -> str:
    prose = _IMAGE.sub(lambda found: found[1], prose)
    prose = _LINK.sub(lambda found: found[0] if is_safe(found[2]) else found[1], prose)
    prose = _REFERENCE.sub(lambda found: found[0] if is_safe(found[1]) else "", prose)
    return _TAG.sub("&lt;", prose)


def is_safe(url: str) -> bool:
    """Return whether a link may be followed: a page, a mail address, or a place in the same document."""
    try:
        return urlsplit(re.sub(r"[\s<>]", "", url)).scheme.lower() in SAFE_SCHEMES
    except ValueError:
        return False
