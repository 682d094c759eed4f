"""How often a message is tried when the service answers no. What cannot be reached counts as no try at all."""

from __future__ import annotations

from onceward.work import JOBS, RetryPolicy, waits

QUICK = waits(1, 2)
"""Three tries within three seconds, then a dead letter."""

PATIENT = JOBS
"""For orders, enrolments and alarms: twelve tries over about a day."""

POLICIES: dict[str, RetryPolicy] = {"quick": QUICK, "patient": PATIENT}
