"""Invariants of messages that `verify` checks."""

from __future__ import annotations

from onceward.trust import Check
from onceward.work.checks import work_has_a_body

CHECKS: tuple[Check, ...] = (work_has_a_body("message", "onceward.messages"),)
