"""Compare the states of payments with the journals and the ledger. Read-only."""

from __future__ import annotations

from onceward.statements import read_statement
from onceward.trust.invariants import Check, finds_nothing

CHECKS: tuple[Check, ...] = (
    finds_nothing("payments.cash_is_what_the_states_say", read_statement("payments", "check_cash")),
    finds_nothing("payments.sums_are_those_of_refunds_and_disputes", read_statement("payments", "check_sums")),
    finds_nothing("payments.journals_are_in_the_ledger", read_statement("payments", "check_journals")),
    finds_nothing("payments.payouts_and_fees_are_booked", read_statement("payments", "check_payouts")),
    finds_nothing("payments.everything_has_an_end", read_statement("payments", "check_ends")),
)
"""The checks read all organizations, so they run as the engine."""
