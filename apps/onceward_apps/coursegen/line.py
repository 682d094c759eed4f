"""The waiting line: courses that wait hold no slot, and free slots go to them in order.

A course joins the line when it is requested, and again when its run has to wait: for the next attempt, or for a refused
account at the language model. `admit` gives free slots to the courses whose turn it is. It runs when a course ends
and when a waiting job looks; one transaction at a time does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from onceward import Engine, Job, LimitReached, Query, Tx
from onceward.db import Transaction
from onceward.limits import GLOBAL, Limit, release, reserve, want
from onceward.telemetry import get_logger
from onceward_apps.coursegen.app import CoursegenSettings, app, tiers
from onceward_apps.coursegen.store import waiting_line

SHARE_S = 300
"""Each other unfinished course of the same user puts a course this far back."""
LOOK_S = 60.0
"""How often a waiting job looks by itself, in case nobody woke it."""

WaitsFor = Literal["retry", "account"]

log = get_logger("onceward_apps.coursegen")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a course stands in the line, and how long it will probably wait."""

    place: int
    waiting: int
    estimated_s: int


def limit_key(user_id: UUID) -> str:
    return f"coursegen:user:{user_id}"


def limits_of(user_id: UUID, tier: str | None) -> list[Limit]:
    """Return the two limits under which a course holds a slot."""
    return [tiers().limit(limit_key(user_id), tier), Limit(GLOBAL)]


async def place(reader: Tx | Query, course: Mapping[str, Any]) -> Place | None:
    """Return the place of a course, or None if it does not wait."""
    if course["status"] not in ("queued", "generating") or course["admitted_at"] is not None:
        return None
    row = await waiting_line.place(reader, course["id"], SHARE_S)
    return None if row is None or row["place"] is None else Place(**dict(row))


async def admit(engine: Engine) -> int:
    """Give the free slots to the courses whose turn it is, and return the number of courses that got one."""
    settings = app.settings(CoursegenSettings)
    admitted = 0
    async with engine.db.transaction(role="engine") as tx:
        await waiting_line.lock_line(tx)
        pauses = await waiting_line.pauses(tx)
        full: set[tuple[UUID, UUID]] = set()
        held_back: list[UUID] = []
        for course in await waiting_line.line(tx, SHARE_S):
            organization, user = course["organization_id"], course["user_id"]
            if organization in pauses and not pauses[organization]:
                held_back.append(course["course_id"])
                continue
            if (organization, user) in full or not course["is_due"]:
                continue
            try:
                await reserve(tx, course["job_id"], limits_of(user, course["tier"]))
            except LimitReached as reached:
                if reached.key == GLOBAL:
                    await want(tx)
                    break
                full.add((organization, user))
                continue
            await waiting_line.admit(tx, course["course_id"], course["job_id"])
            admitted += 1
            if pauses.pop(organization, False):
                # One course tries whether the account works again; the others wait for its answer.
                await waiting_line.move_next_try(tx, organization, settings.account_wait_s)
                pauses[organization] = False
        await waiting_line.hold_back(tx, held_back)
    if admitted:
        log.info("coursegen.admitted", courses=admitted)
    return admitted


def admit_soon(tx: Tx) -> None:
    """Give free slots away after the commit. If that is lost, a waiting job does it within a minute."""
    engine = tx.engine

    async def run() -> None:
        await admit(engine)

    tx.after_commit(lambda: engine.later(run()))


async def join_again(tx: Tx, job: Job, course_id: UUID, waits_for: WaitsFor, *, after_s: float) -> None:
    """Free the slots of a run that has to wait, and put it back into the line, where it keeps its place."""
    await release(tx, job.id)
    await waiting_line.join_again(tx, course_id, job_id=job.id, waits_for=waits_for, after_s=after_s)
    admit_soon(tx)


async def park(tx: Tx, job: Job, course_id: UUID, reason: str) -> None:
    """Let the courses of an organization wait for its refused account. Tell the operators once."""
    wait_s = app.settings(CoursegenSettings).account_wait_s
    if await waiting_line.pause(tx, reason[:500], wait_s):
        await tx.notify_admins(
            "COURSEGEN_MODEL_ACCOUNT",
            "error",
            "The language model refuses the account; courses wait without slots",
            {"reason": reason[:500], "next_try_s": wait_s},
        )
    await join_again(tx, job, course_id, "account", after_s=0)


async def unpause(tx: Transaction) -> bool:
    """Note that the account of the organization works again. False: it was not paused."""
    return await waiting_line.unpause(tx)
