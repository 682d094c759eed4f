"""Which transactions a reader has seen: PostgreSQL's snapshots, compared without asking PostgreSQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

FORM = re.compile(r"^\d{1,20}:\d{1,20}:(\d{1,20}(,\d{1,20})*)?$")
VERSION = re.compile(r"^(\d{1,19})\.(\d{1,19})/(.+)$")
LONGEST = 20_000


class BadVersion(ValueError):
    """A version that no server of ours has given out."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything below `xmax` that is not in `running` is seen."""

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        if len(text) > LONGEST or not FORM.match(text):
            raise BadVersion(f"{text[:60]!r} is not a snapshot like 10:20:11,12")
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(each) for each in running.split(",") if each))

    def sees(self, xid: int) -> bool:
        """Whether the transaction was over when the snapshot was taken (a rolled back one is over, too)."""
        return xid < self.xmax and xid not in self.running

    def includes(self, other: Snapshot) -> bool:
        """Whether everything that `other` sees is seen here; may say no where it would take a closer look to say yes."""
        return other.xmax <= self.xmax and all(each >= other.xmax or each in other.running for each in self.running)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"


@dataclass(frozen=True, slots=True)
class Version:
    """What a client holds: a snapshot, in an epoch of the feed and a life of the server. Written `3.77/10:20:11,12`.

    `epoch` is raised by an operator, `life` changes with a crash of PostgreSQL. Snapshots of different ones say nothing
    about each other: transaction ids are used again.
    """

    epoch: int
    life: int
    snapshot: Snapshot

    @classmethod
    def parse(cls, text: str) -> Version:
        match = VERSION.match(text)
        if match is None:
            raise BadVersion(f"{text[:60]!r} is not a version like 1.77/10:20:11,12")
        return cls(int(match[1]), int(match[2]), Snapshot.parse(match[3]))

    def comparable(self, other: Version) -> bool:
        """Whether both count the same transactions."""
        return (self.epoch, self.life) == (other.epoch, other.life)

    def __str__(self) -> str:
        return f"{self.epoch}.{self.life}/{self.snapshot}"
