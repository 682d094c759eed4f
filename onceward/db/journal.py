"""Commands of several steps that were interrupted. Each notes itself before its first change and its note is removed
after the last.

A start that finds a note finishes the command, or refuses and says what to do. Commands on the files of the embedded
server use `FileJournal`; commands on the database use the table of `onceward.trust.journal`.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedCommand:
    """The note of a command: how far it got, where it runs, and what to do if it was interrupted."""

    command: str
    step: str
    remedy: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    blocks: bool = False
    """Whether no process may start before the command has finished."""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __str__(self) -> str:
        since = self.started_at.isoformat(timespec="seconds")
        return (
            f"`onceward {self.command}`, started at {since} on {self.host} (process {self.pid}), has not finished "
            f"({self.step}): {self.remedy}"
        )


class FileJournal:
    """The note of one command in a file, written so that a crash of the machine leaves the old or the new note."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> UnfinishedCommand | None:
        try:
            fields: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        fields["started_at"] = datetime.fromisoformat(fields["started_at"])
        return UnfinishedCommand(**fields)

    def write(self, note: UnfinishedCommand) -> None:
        unfinished = self.path.with_name(self.path.name + ".unfinished")
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump({**asdict(note), "started_at": note.started_at.isoformat()}, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)
        sync_directory(self.path.parent)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        sync_directory(self.path.parent)


def sync_directory(path: Path) -> None:
    """Make renames in a directory survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
