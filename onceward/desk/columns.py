"""The columns of a listing: what is selected, how it is shown, and what people may sort, filter and search by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onceward.desk.errors import WrongDesk

Kind = Literal["text", "number", "money", "time", "date", "yes", "seconds"]
"""How a value is shown. `time` is an instant, `date` a day; `yes` is a truth value; `money` is in minor units."""
Tone = Literal["good", "busy", "warn", "bad", "quiet"]

SQL_TYPES: dict[Kind, str] = {
    "text": "text",
    "number": "numeric",
    "money": "numeric",
    "time": "timestamptz",
    "date": "date",
    "yes": "boolean",
    "seconds": "numeric",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `Column("state", "State", words={"in": "On the shelf"}, filter=True)`."""

    name: str
    title: str
    sql: str = ""
    """The SQL expression over the row `r`; by default `r.<name>`."""
    kind: Kind = "text"
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """What people read instead of each value. A column with words is shown as a state."""
    tones: Mapping[str, Tone] = field(default_factory=dict[str, Tone])
    currency: str = ""
    """The SQL expression of the currency of a `money` column."""
    sort: bool = False
    """Whether people may sort by it. It must never be null, and needs an index that begins with it."""
    filter: bool = False
    """Whether people may filter by it: a list of its words, a first and a last day, or the exact text."""
    choices: str = ""
    """SQL for the choices of the filter: `select id::text as value, name as word from library.shelves order by 2`."""
    by: str = ""
    """The SQL expression that a choice is compared with, if it is not the column itself: `r.shelf_id`."""
    search: bool = False
    """Whether the search field looks at its words."""
    wide: bool = False
    """Whether it is left out on a phone."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name.startswith("_"):
            raise WrongDesk(
                f"the name of a column must be an identifier without a leading underscore, not {self.name!r}"
            )
        if (self.kind == "money") != bool(self.currency):
            raise WrongDesk(f"column {self.name}: give `currency` for a column of kind money, and for no other")
        if self.search and self.kind != "text":
            raise WrongDesk(f"column {self.name}: only text can be searched, not {self.kind}")

    @property
    def expression(self) -> str:
        return self.sql or f"r.{self.name}"

    @property
    def is_data(self) -> bool:
        """Return whether its values are texts that people entered, which are never translated."""
        return self.kind == "text" and not self.words

    @property
    def is_days(self) -> bool:
        """Return whether its filter is a first and a last day."""
        return self.kind in ("time", "date")

    @property
    def sql_type(self) -> str:
        return SQL_TYPES[self.kind]
