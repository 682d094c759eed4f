"""What must hold of messages at any time."""

from __future__ import annotations

from onceward.trust import Check
from onceward.work.checks import work_has_a_body

CHECKS: tuple[Check, ...] = (work_has_a_body("message", "onceward.messages"),)
