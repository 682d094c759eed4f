"""The SQLSTATEs that our own SQL raises, in class OW. docs/tables.py writes docs/sqlstates.md from this list.

A test compares the list with all SQL and Python files: the files that raise or catch a code must be listed here.
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
    """The files that handle this code. Elsewhere the statement fails, and with it the transaction."""


LOST_LEASE = "OW001"
NEEDS_ORGANIZATION = "OW004"

_LEDGER = "onceward/ledger/migrations/0001_ledger.sql"
_LEDGER_TABLES = "onceward/ledger/migrations/0001_ledger.sql"
_LEDGER_ERRORS = ("onceward/ledger/errors.py",)
_CAPACITY = "onceward/capacity/migrations/0001_capacity.sql"

SQLSTATES = (
    SqlState(
        code=LOST_LEASE,
        meaning="The lease of the work is lost. Another worker holds the work; nothing of this attempt is committed.",
        raised_by=(
            "onceward/inbox/migrations/0001_inbox.sql",
            "onceward/work/migrations/0001_work.sql",
            "onceward/workflows/migrations/0001_workflows.sql",
        ),
        caught_by=("onceward/work/executor.py", "onceward/workflows/interruption.py", "onceward/workflows/step.py"),
    ),
    SqlState(
        code="OW002",
        meaning="A statement tried to delete a claim on capacity. Claims are released, never deleted.",
        raised_by=(_CAPACITY,),
    ),
    SqlState(
        code="OW003",
        meaning="A hold on capacity would end before it begins.",
        raised_by=(_CAPACITY,),
    ),
    SqlState(
        code=NEEDS_ORGANIZATION,
        meaning="The transaction has no organization. Capacity and the ledger need one.",
        raised_by=(_CAPACITY,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW005",
        meaning="An external program cannot claim or finish the event: it is not waiting, or its source is not in mode external.",
        raised_by=("onceward/inbox/migrations/0001_inbox.sql",),
    ),
    SqlState(
        code="OW101",
        meaning="A statement tried to change or delete an immutable row of the ledger.",
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
        meaning="The key was already used for a journal with another body.",
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
        meaning="The amount to reverse or settle is more than what is left of the original.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW109",
        meaning="A checkpoint of the ledger was requested inside another transaction.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
    SqlState(
        code="OW110",
        meaning="The account is already open with another kind or another bound.",
        raised_by=(_LEDGER,),
        caught_by=_LEDGER_ERRORS,
    ),
)
