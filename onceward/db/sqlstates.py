"""The SQLSTATEs that our own SQL raises: class OW, one meaning each. The table in docs/sqlstates.md is written from this one.

A test compares it with every SQL and Python file: who raises a code, and who catches it, is listed here or the test fails.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlState:
    """One code. Paths are relative to the repository."""

    code: str
    meaning: str
    raised_by: tuple[str, ...]
    caught_by: tuple[str, ...] = ()
    """The files that treat this code in a way of its own. Elsewhere it fails the statement, and so the transaction."""


LOST_LEASE = "OW001"
NEEDS_ORGANIZATION = "OW004"

_LEDGER = "onceward/ledger/migrations/0001_ledger.sql"
_LEDGER_TABLES = "onceward/ledger/migrations/0001_ledger.sql"
_LEDGER_ERRORS = ("onceward/ledger/errors.py",)
_CAPACITY = "onceward/capacity/migrations/0001_capacity.sql"

SQLSTATES = (
    SqlState(
        code=LOST_LEASE,
        meaning="The work is no longer held under this lease. Somebody else has it; nothing of this attempt is committed.",
        raised_by=(
            "onceward/inbox/migrations/0001_inbox.sql",
            "onceward/work/migrations/0001_work.sql",
            "onceward/workflows/migrations/0001_workflows.sql",
        ),
        caught_by=("onceward/work/executor.py", "onceward/workflows/interruption.py", "onceward/workflows/step.py"),
    ),
    SqlState(
        code="OW002",
        meaning="A claim on capacity was to be deleted. Claims are released, never deleted.",
        raised_by=(_CAPACITY,),
    ),
    SqlState(
        code="OW003",
        meaning="A hold on capacity would end before it begins.",
        raised_by=(_CAPACITY,),
    ),
    SqlState(
        code=NEEDS_ORGANIZATION,
        meaning="The transaction acts for no organization, and capacity or the ledger needs one.",
        raised_by=(_CAPACITY,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW005",
        meaning="The event cannot be taken or ended from outside: it is not waiting, or its source is not in mode external.",
        raised_by=("onceward/inbox/migrations/0001_inbox.sql",),
    ),
    SqlState(
        code="OW101",
        meaning="Something in the ledger that never changes was to be changed or deleted.",
        raised_by=(_LEDGER_TABLES,),
    ),
    SqlState(
        code="OW102",
        meaning="An entry of a reversal or settlement does not mirror the entry that it draws on.",
        raised_by=(_LEDGER_TABLES,),
    ),
    SqlState(
        code="OW103",
        meaning="The account is not open in this organization and currency.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW104",
        meaning="The key was used before, for a journal with another body.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW105",
        meaning="A bounded account would fall below zero.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW106",
        meaning="No journal of this organization has that id.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW107",
        meaning="A journal in this state cannot be settled, voided or reversed.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW108",
        meaning="More than is left of the original was to be reversed or settled.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW109",
        meaning="A checkpoint of the ledger was asked for inside another transaction.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW110",
        meaning="The account is open already, as another kind or with another bound.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
)
