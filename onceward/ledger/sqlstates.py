"""The SQLSTATEs that the SQL of `ledger` raises. docs/sqlstates.md lists the codes of all packages."""

from __future__ import annotations

from onceward.feature import SqlState

SQLSTATES = (
    SqlState("OW101", "A statement tried to change or delete an immutable row of the ledger."),
    SqlState("OW102", "An entry of a reversal or settlement does not mirror the entry that it draws on."),
    SqlState("OW103", "The account is not open in this organization and currency."),
    SqlState("OW104", "The key was already used for a journal with another body."),
    SqlState("OW105", "A bounded account would fall below zero."),
    SqlState("OW106", "No journal of this organization has that id."),
    SqlState("OW107", "A journal in this state cannot be settled, voided or reversed."),
    SqlState("OW108", "The amount to reverse or settle is more than what is left of the original."),
    SqlState(
        "OW109",
        "A checkpoint, or a journal that is a transaction of its own, was requested inside another transaction.",
    ),
    SqlState("OW110", "The account is already open with another kind or another bound."),
)
