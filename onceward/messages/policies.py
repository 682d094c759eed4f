"""How often a message is retried after a refusal. An unreachable service does not count as an attempt."""

from __future__ import annotations

from onceward.work import JOBS, RetryPolicy, waits

QUICK = waits(1, 2)
"""Three attempts within three seconds, then a dead letter."""

PATIENT = JOBS
"""For orders, enrolments and alarms: twelve attempts over about a day."""

POLICIES: dict[str, RetryPolicy] = {"quick": QUICK, "patient": PATIENT}
