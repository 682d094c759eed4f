"""Actions of a desk: what people can do with a row, with several rows, or with the list as a whole.

An action asks for what it needs, says what would happen by doing it and rolling it back, and then runs in one
transaction with its audit entry.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from asyncpg import PostgresError
from pydantic import BaseModel

from onceward.desk.consequences import Consequence, consequences_since, last_id
from onceward.desk.errors import WrongDesk
from onceward.desk.fields import entries
from onceward.desk.listing import Listing
from onceward.desk.refused_values import sentence
from onceward.errors import OncewardError
from onceward.trust.identity import Identity
from onceward.tx import Tx
from onceward.web.dashboard import ActionRefused
from onceward.web.exposure import Effect

Given = TypeVar("Given", bound=BaseModel)
On = Literal["list", "row", "rows"]


@dataclass(slots=True)
class Act(Generic[Given]):
    """One run of an action: the row, what was entered, by whom and why. `says` adds to what people read."""

    id: str
    """The id of the row; empty for an action on the list as a whole. The action of a new row sets it."""
    given: Given
    by: Identity
    reason: str = ""
    said: list[str] = field(default_factory=list[str])

    def says(self, sentence: str) -> None:
        """Add a sentence about what follows: "12 students will get a message"."""
        self.said.append(sentence)


class Nothing(BaseModel):
    """What an action is given that asks for nothing."""


Run = Callable[[Tx, Act[Any]], Awaitable[str]]
Load = Callable[[Tx, str], Awaitable[BaseModel | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeskAction:
    """An action of a listing. `Desk.action` declares it."""

    name: str
    title: str
    listing: Listing
    run: Run
    on: On = "row"
    model: type[BaseModel] = Nothing
    load: Load | None = None
    """The present values of a row, for a form that changes it."""
    when: str = "true"
    """SQL over the row `r`: whether the action is offered for it."""
    reason: bool = False
    """Whether people must say why. The reason is written to the audit log."""
    danger: bool = False
    undo: str = ""
    """The name of the action that takes it back. An action with `load` is taken back by the values from before."""
    in_list: bool = False
    """Whether each row of the list has a button for it."""
    roles: tuple[str, ...] = ()
    causes: tuple[Effect, ...] = ()
    """What it can cause outside of the database, for the table of routes in docs/security.md."""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise WrongDesk(f"the name of an action must be an identifier, not {self.name!r}")
        if self.load is not None and self.on != "row":
            raise WrongDesk(f"action {self.name}: only an action on one row has values to load")
        entries(self.model)

    @property
    def in_bulk(self) -> bool:
        return self.on == "rows"

    def recorded_as(self, desk: str) -> str:
        """Return its name in the audit log."""
        return f"{desk}.{self.listing.entity}.{self.name}"


@dataclass(frozen=True, slots=True)
class Tried:
    """What an action would do: the sentence it returns, what it said, and what it would start."""

    message: str = ""
    said: tuple[str, ...] = ()
    starts: tuple[Consequence, ...] = ()
    possible: int = 1
    """For how many of the chosen rows the action is offered."""
    refused: str = ""


async def allowed_now(tx: Tx, action: DeskAction, id: str) -> bool:
    """Return whether the action is offered for this row, and lock the row until the transaction ends."""
    listing = action.listing
    return bool(
        await tx.fetchval(
            f"select ({action.when}) from {listing.rows}"
            f" where {listing.id} = $1::text::{listing.id_type} and ({listing.where}) for update of r",
            id,
        )
    )


async def perform(tx: Tx, action: DeskAction, act: Act[Any], *, desk: str) -> str:
    """Run an action in the transaction, with its audit entry. Raises `ActionRefused` with a sentence for people."""
    if action.on != "list" and not await allowed_now(tx, action, act.id):
        raise ActionRefused(
            f"{action.title} is not possible any more: the {action.listing.noun} has changed or is gone"
        )
    before = None if action.load is None else await action.load(tx, act.id)
    try:
        message = await action.run(tx, act)
    except ActionRefused:
        raise
    except OncewardError as error:
        raise ActionRefused(str(error)) from error
    except PostgresError as error:
        if (refusal := sentence(error, action.listing.noun)) is None:
            raise
        raise ActionRefused(refusal) from error
    await tx.audit(
        action.recorded_as(desk),
        entity_type=action.listing.entity,
        entity_id=act.id or None,
        changes=_changes(before, act.given) or None,
        reason=act.reason or None,
        actor=act.by.actor,
    )
    return message


def _changes(before: BaseModel | None, given: BaseModel) -> dict[str, Any]:
    """Return what the audit log keeps: what was entered, or for a change each field that differs, before and after."""
    after = given.model_dump(mode="json")
    if before is None:
        return after
    old = before.model_dump(mode="json")
    return {name: {"before": old.get(name), "after": value} for name, value in after.items() if old.get(name) != value}


async def possible(tx: Tx, action: DeskAction, ids: Sequence[str]) -> list[str]:
    """Return those of these rows for which the action is offered."""
    listing = action.listing
    rows = await tx.fetch(
        f"select ({listing.id})::text as id from {listing.rows}"
        f" where {listing.id} = any($1::text[]::{listing.id_type}[]) and ({listing.where}) and ({action.when})",
        list(ids),
    )
    return [row["id"] for row in rows]


async def attempt(tx: Tx, action: DeskAction, act: Act[Any], *, desk: str, possible: int = 1) -> Tried:
    """Return what the action would do. The caller rolls the transaction back."""
    before = await last_id(tx)
    try:
        message = await perform(tx, action, act, desk=desk)
    except ActionRefused as refusal:
        return Tried(refused=str(refusal))
    return Tried(message, tuple(act.said), tuple(await consequences_since(tx, before)), possible)
