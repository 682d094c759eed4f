"""A slot as the executor uses it, and the slot of work that runs outside a worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from onceward.db import Connection, Transaction
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import Member
from onceward.work.leaks import failure_of
from onceward.work.task import Task


class Carried(NamedTuple):
    """A connection that is passed to the next piece of work, with the transaction of that work already open."""

    work: Claimed
    conn: Connection
    tx: Transaction


class SlotControl(Protocol):
    """A slot as the executor uses it: it runs one piece of work after another. It can cancel a handler, and knows the
    reason and the next work.

    Only a handler is ever cancelled. Settling is not: it may take as long as the database is unavailable.
    """

    carried: Carried | None

    def begins(self, timeout_s: float | None) -> None:
        """A handler starts: from now on it may be cancelled, at the latest after `timeout_s`."""
        ...

    def ended(self) -> None:
        """The handler has returned or raised: from now on nothing may cancel this task."""
        ...

    def failure(self, error: BaseException) -> BaseException:
        """Return why the handler failed: the reason of its cancellation, or its error. From now on nothing may cancel
        this task.

        Raise the error again if the whole worker is stopping.
        """
        ...

    def runs(self, works: Sequence[Claimed]) -> None:
        """These members of a batch share the next transaction: each of them may be cancelled."""
        ...

    @property
    def cancelled(self) -> Collection[int]:
        """Return the ids of the members of the batch that operators cancelled."""
        ...

    def following(self) -> Claimed | None:
        """Return the work that runs here next, if it is ready and needs a transaction. The slot must then run it."""
        ...

    def joining(self, fits: Callable[[Task, Claimed], bool]) -> Member | None:
        """Return waiting work that runs now in the transaction of the work before it, if some waits, no other slot is
        free and it fits.

        The slot holds it, like the work before it, until all have ended.
        """
        ...

    def turns_to(self, work: Claimed, *, follows_others: bool) -> None:
        """The handler that begins next has this work, one of those that the slot holds.

        Others ran before it in its transaction or not.
        """
        ...


class LoneSlot:
    """A slot for one piece of work that nothing cancels, outside a worker."""

    carried: Carried | None = None

    def begins(self, timeout_s: float | None) -> None: ...

    def ended(self) -> None: ...

    def failure(self, error: BaseException) -> BaseException:
        return failure_of(error)

    def runs(self, works: Sequence[Claimed]) -> None: ...

    @property
    def cancelled(self) -> Collection[int]:
        return ()

    def following(self) -> Claimed | None:
        return None

    def joining(self, fits: Callable[[Task, Claimed], bool]) -> Member | None:
        return None

    def turns_to(self, work: Claimed, *, follows_others: bool) -> None: ...


LONE_SLOT = LoneSlot()
