"""What one handler would cause, as values. Equal effects compare equal: there are no ids of this run in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, Literal, cast

from onceward import exact_json
from onceward.outside import OutsideCall

Verb = Literal["insert", "update", "delete"]
State = Literal["caused", "nothing", "put_off", "failed", "outside"]
"""How a rehearsal ended: something or nothing was caused, or the handler put the work off, failed, or called out."""
UNHANDLED = "unhandled"
"""The result of an event for which the app has no handler."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """One row that the handler inserted, updated or deleted. `before` and `after` have the columns that change."""

    table: str
    verb: Verb
    key: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class JobEffect:
    """A job that would be enqueued, or one that its unique key has made a duplicate (`existing`)."""

    task: str
    arguments: Mapping[str, Any]
    queue: str | None = None
    unique_key: str | None = None
    delay_s: int = 0
    existing: bool = False


@dataclass(frozen=True, slots=True)
class MessageEffect:
    """A message that would be queued, with the text that the recipient would read. The recipient is masked."""

    template: str
    channel: str
    recipient: str
    key: str
    subject: str = ""
    text: str = ""
    existing: bool = False


@dataclass(frozen=True, slots=True)
class PublishedEffect:
    """An event that would be published to outbound webhooks."""

    type: str
    data: Any
    key: str | None
    endpoints: int
    existing: bool = False


@dataclass(frozen=True, slots=True)
class BroadcastEffect:
    """A message that the subscribers of a topic would get."""

    topic: str
    payload: Any


@dataclass(frozen=True, slots=True)
class EntryEffect:
    """One entry of a journal, with the codes of its accounts."""

    debit: str
    credit: str
    amount: int
    currency: str


@dataclass(frozen=True, slots=True)
class JournalEffect:
    """A journal that would be posted to the ledger, or one that its key has made a duplicate (`existing`)."""

    key: str
    kind: str
    entries: tuple[EntryEffect, ...] = ()
    memo: str | None = None
    existing: bool = False


@dataclass(frozen=True, slots=True)
class AuditEffect:
    """An entry that would be written to the audit log."""

    action: str
    entity_type: str
    entity_id: str | None
    changes: Mapping[str, Any] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CapacityEffect:
    """A claim on capacity that would be made, or that would change its state."""

    pool: str
    state: str
    quantity: int
    unit: str | None = None
    was: str | None = None


@dataclass(frozen=True, slots=True)
class LimitEffect:
    """Slots of a limit that work would hold: as much less may run at once."""

    key: str
    slots: int


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything that one handler would cause."""

    rows: tuple[RowChange, ...] = ()
    jobs: tuple[JobEffect, ...] = ()
    messages: tuple[MessageEffect, ...] = ()
    published: tuple[PublishedEffect, ...] = ()
    broadcasts: tuple[BroadcastEffect, ...] = ()
    journals: tuple[JournalEffect, ...] = ()
    audit: tuple[AuditEffect, ...] = ()
    capacity: tuple[CapacityEffect, ...] = ()
    limits: tuple[LimitEffect, ...] = ()
    outside: tuple[OutsideCall, ...] = ()
    unseen: Mapping[str, int] = field(default_factory=dict[str, int])
    """Rows that were counted and not found, by table: the table is too large to be read (`rehearsal_scan_mb`)."""

    @property
    def is_empty(self) -> bool:
        """Return whether the handler would write nothing: effects that exist already do not count."""
        return not any(True for _ in self.new()) and not self.unseen

    def new(self) -> list[Any]:
        """Return the effects that do not exist yet."""
        return [each for each in self.all() if not getattr(each, "existing", False)]

    def existing(self) -> list[Any]:
        """Return the effects that exist already: their keys make a repetition harmless."""
        return [each for each in self.all() if getattr(each, "existing", False)]

    def all(self) -> list[Any]:
        """Return every effect, kind by kind."""
        kinds = (each.name for each in fields(self) if each.name != "unseen")
        return [effect for kind in kinds for effect in getattr(self, kind)]


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception with which the handler would fail, and the line of the user's code that raised it."""

    type: str
    message: str
    at: str | None = None

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" + (f" ({self.at})" if self.at else "")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What happened when one piece of work was rehearsed. Nothing of it was committed."""

    id: int
    kind: str
    task: str
    label: str
    state: State
    effects: Effects
    result: Any = None
    failure: Failure | None = None
    already_done: str | None = None
    """Why a repetition has no effect: the key or constraint that prevents it."""
    duration_ms: float = 0.0
    statements: int = 0
    locked_rows: int = 0
    """Rows that the handler locked without changing them, in tables that it also wrote to."""

    locks: tuple[str, ...] = ()
    """Tables in which the handler locked rows, or which it locked whole, besides what it wrote."""
    crosses: bool = False
    """Whether the handler acted for another organization than that of its work, or for all of them."""

    withheld: int = 0
    """How many effects the viewer may not see, because the handler acted for another organization."""

    at: datetime = field(default=datetime.min.replace(tzinfo=UTC), compare=False, repr=False)
    """When the handler started, by the clock of the database."""
    generated: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Keys of new rows: they differ in every run."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields that are not empty, without the generated keys."""
        document = cast("dict[str, Any]", plain(self))
        document.pop("generated", None)
        return document


def stored(result: Any) -> Any:
    """Return a result as the database keeps it."""
    return None if result is None else exact_json.loads(exact_json.dumps(result, default=str))


def plain(value: Any) -> Any:
    """Return dataclasses as mappings without their empty fields, and tuples as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        named = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {name: plain(one) for name, one in named if one not in (None, (), {}, "", False)}
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(key): plain(one) for key, one in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in cast("list[Any]", value)]
    return value
