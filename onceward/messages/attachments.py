"""Attachments of mails. The queue stores where a file is; the sender reads it from the file store when it sends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onceward.messages.errors import MessageRejected
from onceward.services import Files

MAX_ATTACHMENTS = 20
MAX_BYTES = 10 << 20
"""The size of all attachments of a mail together. Many receivers refuse mails above 20 MiB, and base64 adds a third."""
CONTENT_TYPE = re.compile(r"^[a-z0-9!#$&^_.+-]{1,100}/[a-z0-9!#$&^_.+-]{1,100}$", re.IGNORECASE)
NAME = re.compile(r"^[^\x00-\x1f\x7f/\\]{1,200}$")
CONTENT_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A file of the file store (`app.services.files`) that goes with a mail.

    With `inline`, the mail shows the image where its HTML says `<img src="cid:NAME">`, with the value of `inline` as
    NAME.
    """

    path: str
    name: str
    content_type: str = "application/octet-stream"
    inline: str | None = None

    def __post_init__(self) -> None:
        if not self.path or len(self.path) > 500 or "\x00" in self.path or ".." in self.path.split("/"):
            raise ValueError(
                f"attachment path {self.path[:60]!r} must be a path of the file store, up to 500 characters"
            )
        if not NAME.match(self.name):
            raise ValueError(f"attachment name {self.name[:60]!r} must have 1 to 200 characters, without / and \\")
        if not CONTENT_TYPE.match(self.content_type):
            raise ValueError(f"attachment {self.name}: content_type {self.content_type[:60]!r} must be like image/png")
        if self.inline is not None and not CONTENT_ID.match(self.inline):
            raise ValueError(f"attachment {self.name}: inline {self.inline[:60]!r} must be letters, digits, . _ and -")

    def as_json(self) -> dict[str, str]:
        """Return what the table of messages stores."""
        stored = {"path": self.path, "name": self.name, "content_type": self.content_type}
        return stored if self.inline is None else {**stored, "inline": self.inline}


@dataclass(frozen=True, slots=True)
class LoadedAttachment:
    """An attachment with its content."""

    name: str
    content_type: str
    content: bytes = field(repr=False)
    inline: str | None = None


def check_count(attachments: Sequence[Attachment], key: str) -> None:
    """Raise ValueError if a message has too many attachments or two inline images of one name."""
    if len(attachments) > MAX_ATTACHMENTS:
        raise ValueError(f"message {key!r} has {len(attachments)} attachments; the maximum is {MAX_ATTACHMENTS}")
    names = [each.inline for each in attachments if each.inline is not None]
    if len(set(names)) != len(names):
        raise ValueError(f"message {key!r}: two inline attachments have the same name")


async def load_attachments(files: Files, stored: Sequence[dict[str, Any]] | None) -> tuple[LoadedAttachment, ...]:
    """Read the files. Raises `MessageRejected` if one does not exist or all together are too large."""
    loaded: list[LoadedAttachment] = []
    total = 0
    for each in stored or ():
        content = await files.get(each["path"])
        if content is None:
            raise MessageRejected(
                f"attachment {each['name']!r} is not in the file store: put it there before you queue the mail"
            )
        total += len(content)
        if total > MAX_BYTES:
            raise MessageRejected(f"the attachments have more than {MAX_BYTES >> 20} MiB together: send a link instead")
        loaded.append(LoadedAttachment(each["name"], each["content_type"], content, each.get("inline")))
    return tuple(loaded)
