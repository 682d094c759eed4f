"""The counts of a run for each organization: an organization sees its part of a run that reached many.

The values are absolute and are written under the lease of the run, so writing them again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(slots=True)
class Counts:
    """The number of items so far, by outcome."""

    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, outcome: str, items: int = 1) -> None:
        self.processed += items
        match outcome:
            case "success":
                self.succeeded += items
            case "failed":
                self.failed += items
            case _:
                self.skipped += items


Part = tuple[UUID, str]
"""An organization and a step."""


class Parts:
    """Counts of the items of each organization and step, and which of them are not saved yet."""

    def __init__(self) -> None:
        self._counts: dict[Part, Counts] = {}
        self._unsaved: set[Part] = set()

    def add(self, step: str, organization: UUID | None, outcome: str, items: int = 1) -> None:
        if organization is None:
            return  # items of the platform: the record of the run counts them
        part = organization, step
        self._counts.setdefault(part, Counts()).add(outcome, items)
        self._unsaved.add(part)

    def recount(self, step: str, rows: Iterable[Any]) -> None:
        """Replace the counts of a step by those of its marks."""
        for part in [part for part in self._counts if part[1] == step]:
            self._counts[part] = Counts()
        for row in rows:
            self.add(step, row["organization_id"], row["outcome"], row["items"])

    def unsaved(self) -> tuple[list[Part], dict[str, list[Any]]]:
        """Return which parts are not saved, and their values as the arguments of `save_progress`."""
        parts = sorted(self._unsaved)  # one order: no deadlocks
        counts = [self._counts[part] for part in parts]
        return parts, {
            "organizations": [organization for organization, _ in parts],
            "steps": [step for _, step in parts],
            "part_succeeded": [each.succeeded for each in counts],
            "part_failed": [each.failed for each in counts],
            "part_skipped": [each.skipped for each in counts],
        }

    def saved(self, parts: Iterable[Part]) -> None:
        self._unsaved.difference_update(parts)
