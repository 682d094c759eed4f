"""PostgreSQL snapshots: which transactions a reader has seen. They are compared here, without a database query."""

from __future__ import annotations

import re
from dataclasses import dataclass

from onceward.errors import OncewardError

FORM = re.compile(r"^\d{1,20}:\d{1,20}:(\d{1,20}(,\d{1,20})*)?$")
VERSION = re.compile(r"^(\d{1,19})\.(\d{1,19})/(.+)$")
LONGEST = 20_000


class BadVersion(OncewardError, ValueError):
    """The text is not a version or snapshot."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot sees every transaction below `xmax` that is not in `running`."""

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
        """Return whether the transaction had ended, by commit or rollback, when the snapshot was taken."""
        return xid < self.xmax and xid not in self.running

    def includes(self, other: Snapshot) -> bool:
        """Return whether this snapshot sees everything that `other` sees. False may also mean "unknown"."""
        return other.xmax <= self.xmax and all(each >= other.xmax or each in other.running for each in self.running)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"


@dataclass(frozen=True, slots=True)
class Version:
    """A snapshot with the epoch of the feed and the life of the server. Its text form is `3.77/10:20:11,12`.

    An operator increases `epoch`; a crash of PostgreSQL changes `life`. Snapshots with different epochs or lives cannot
    be compared, because PostgreSQL may use transaction ids again.
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
        """Return whether the two snapshots can be compared: same epoch, same life."""
        return (self.epoch, self.life) == (other.epoch, other.life)

    def __str__(self) -> str:
        return f"{self.epoch}.{self.life}/{self.snapshot}"
