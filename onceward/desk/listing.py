"""A listing: rows of one table with columns, filters, search and sorting.

`asking` reads an address, `reading` the rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from onceward.desk.columns import Column
from onceward.desk.errors import WrongDesk


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Rows of one table: `Listing(name="books", title="Books", noun="book", rows="library.books r", columns=(...))`."""

    name: str
    title: str
    noun: str
    """One row in the singular: "book"."""
    plural: str = ""
    """Several rows; by default the noun with an s, or with -ies instead of -y."""
    rows: str
    """The FROM clause; the row itself has the alias `r`. Row-level security limits it to the organization."""
    columns: tuple[Column, ...]
    id: str = "r.id"
    id_type: Literal["uuid", "bigint", "text"] = "uuid"
    where: str = "true"
    order: str = ""
    """The column by which the list is sorted at first: `starts_at`, or `-starts_at` for the newest first.

    By default by id, descending.
    """
    presets: tuple[tuple[str, str], ...] = ()
    """Filters under a name that everybody has: `(("Today", "starts_at=today"),)`."""
    empty: str = ""
    """What to do if there is no row yet."""
    roles: tuple[str, ...] = ()
    """The roles of the desk that may see it, besides viewers, operators and owners of the organization."""
    organization: str = "r.organization_id"
    every_s: float | None = 2.0
    """Seconds between two updates while somebody watches; None means that it does not update by itself."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names) or not names:
            raise WrongDesk(f"listing {self.name}: give columns with different names, not {names}")
        if (name := self.order.removeprefix("-")) and not self.column(name).sort:
            raise WrongDesk(f"listing {self.name}: column {name} of `order` needs sort=True")
        if "r" not in re.findall(r"\b\w+\b", self.rows):
            raise WrongDesk(f"listing {self.name}: `rows` must give the row the alias r, as in 'library.books r'")

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise WrongDesk(f"listing {self.name} has no column {name}; it has {[each.name for each in self.columns]}")

    @property
    def searched(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.search)

    @property
    def filtered(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.filter)

    @property
    def words(self) -> str:
        """Return the expression that the search looks at. An index on exactly this text makes it fast."""
        joined = " || ' ' || ".join(f"coalesce({column.expression}, '')" for column in self.searched)
        return f"to_tsvector('simple', {joined})"

    @property
    def entity(self) -> str:
        """Return the entity type of its rows in the audit log."""
        return self.noun.replace(" ", "_")

    @property
    def nouns(self) -> str:
        return self.plural or (f"{self.noun[:-1]}ies" if re.search("[^aeiou]y$", self.noun) else f"{self.noun}s")

    def many(self, count: int, shown: str | None = None) -> str:
        """Return a count with its noun: `1 entry`, `3 entries`."""
        return f"{f'{count:,}' if shown is None else shown} {self.noun if count == 1 else self.nouns}"
