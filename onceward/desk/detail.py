"""The page of one row: its state and facts, related lists as tabs, a timeline, notes and actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onceward.desk.charts import Chart
from onceward.desk.columns import Column
from onceward.desk.listing import Listing


@dataclass(frozen=True, slots=True)
class Related:
    """A list of other objects that belong to this one: `Related(LOANS, by="r.book_id")`."""

    listing: Listing
    by: str
    """SQL over the rows of that listing: the id of this object. It needs an index."""
    type: str = ""
    """The SQL type of `by`, if it is not that of the id: `text`."""
    without: tuple[str, ...] = ()
    """Columns that say the same in every row, because all of them belong to this object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """What the page of one row shows besides the columns of its listing."""

    title: str
    """SQL over the row `r`: the heading of the page."""
    facts: tuple[Column, ...] = ()
    related: tuple[Related, ...] = ()
    also: tuple[str, ...] = ()
    """Further entity types of the audit log whose entries about the same id belong to the timeline."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """What people read instead of the name of an audit entry; an empty text leaves it out."""
    timeline: str = ""
    """SQL of the app's own records, with `$1` as the id (text): `at`, `what`, `who`, and `path` where more is shown."""
    documents: str = ""
    """SQL of files that belong to the row, with `$1` as the id (text): `title` and `path`, and in a column `action` the
    list and action, such as `orders.resend`, that a person must be allowed to do to open it."""
    charts: tuple[Chart, ...] = ()
    """Charts about the row."""
    notes: bool = True
