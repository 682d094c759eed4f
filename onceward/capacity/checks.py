"""Recount every pool from its claims and report every difference. Read-only."""

from __future__ import annotations

from onceward.statements import read_statement
from onceward.trust.invariants import Check, finds_nothing

COUNTERS = read_statement("capacity", "check_counters")
OVERSOLD = read_statement("capacity", "check_oversold")
UNITS = read_statement("capacity", "check_units")
TOTALS = read_statement("capacity", "check_totals")
GUARDS = read_statement("capacity", "check_guards")


CHECKS: tuple[Check, ...] = (
    finds_nothing("capacity.pools_count_their_claims", COUNTERS),
    finds_nothing("capacity.groups_sum_their_pools", TOTALS),
    finds_nothing("capacity.nothing_is_oversold", OVERSOLD),
    finds_nothing("capacity.a_unit_has_one_live_claim", UNITS),
    finds_nothing("capacity.counting_triggers_are_on", GUARDS),
)
"""The checks read all organizations, so they run as the engine."""
