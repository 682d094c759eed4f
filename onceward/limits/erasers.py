"""The personal data in limits: keys of slots, such as `user:17`."""

from __future__ import annotations

from onceward.trust.erase import Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="admission slots",
        table="onceward.limit_slots",
        columns={"key": "text"},
        delete=True,
        scope="t.organization_id = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')",
        waits="exists (select from onceward.work w where w.id = t.work_id)",
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.limits.*": "limits of the instance, named by operators",
    "onceward.limit_changes.*": "limits of the instance, and the load that changed them",
    "onceward.rates.*": "hashes",
}
