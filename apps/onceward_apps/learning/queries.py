"""Live queries, topics and places of the learning platform. Broadcasts carry no payment fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Query
from onceward_apps.learning import chat as chat_rules
from onceward_apps.learning.app import app
from onceward_apps.learning.model import as_uuid, start_of_next_day, transitions_from
from onceward_apps.learning.store import certificates, views
from onceward_apps.learning.store import chat as chat_rows
from onceward_apps.learning.student_access import (
    claimed_user,
    cohort_place,
    enrolled,
    is_signed_in,
    member,
    member_self,
    own_topic,
    public_cohort,
)

MOST_NAMES = 50
COUNTS_PER_SECOND = 20
SOONEST_COUNT_S = 15.0

app.topic("cohort/{id}/enrollments", allow="operator", replay=20)
app.topic("user/{id}/bookings", allow=own_topic, replay=20)
app.topic("user/{id}/profile", allow=own_topic, replay=20)
app.topic("cohort/{id}", allow=cohort_place, presence=True)


def place_of(cohort_id: UUID) -> str:
    """Return the place in which the students of a cohort are present."""
    return f"cohort/{cohort_id}"


@app.query(name="learning.enrollment_count", allow=public_cohort)
async def enrollment_count(q: Query, *, cohort_id: UUID) -> dict[str, Any] | None:
    """Return how full a cohort is, from the capacity rows: enrolments, held places and invites all take a place."""
    q.watch("learning.cohorts", id=cohort_id)
    q.watch("learning.enrollments", cohort_id=cohort_id)
    q.watch("learning.checkouts", cohort_id=cohort_id)
    q.watch("learning.waitlist_invites", cohort_id=cohort_id)
    q.watch("learning.seat_blocks", cohort_id=cohort_id)
    q.ignore("onceward.capacity_pools", "onceward.capacity_claims")  # every claim belongs to a row of the tables above
    cohort, places = await views.cohort(q, cohort_id), await views.places(q, cohort_id)
    if cohort is None:
        return None
    if places is not None and places["next_end"] is not None:
        q.stale_at(places["next_end"])
    sold, held = (0, 0) if places is None else (places["sold"], places["held"])
    capacity = cohort["max_capacity"]
    changed = [cohort["status_changed_at"], await views.last_change(q, cohort_id)]
    return {
        "cohortId": str(cohort_id),
        "cohortName": cohort["name"],
        "activeEnrollmentCount": sold,
        "maxCapacity": capacity,
        "spotsRemaining": max(0, capacity - sold - held),
        "percentFull": round(100 * sold / capacity, 1) if capacity else 100.0,
        "status": cohort["status"],
        "lastUpdated": max(at for at in changed if at is not None),
    }


@app.query(name="learning.cohort_status", allow=public_cohort)
async def cohort_status(q: Query, *, cohort_id: UUID) -> dict[str, Any] | None:
    """Return the status of a cohort, its history, and what it can change to."""
    q.watch("learning.cohorts", id=cohort_id)
    q.watch("learning.cohort_status_history", cohort_id=cohort_id)
    cohort = await views.cohort(q, cohort_id)
    if cohort is None:
        return None
    history = await views.history(q, cohort_id)
    return {
        "cohortId": str(cohort_id),
        "status": cohort["status"],
        "statusChangedAt": cohort["status_changed_at"],
        "statusHistory": [
            {"from": row["from_status"], "to": row["to_status"], "changedAt": row["changed_at"]} for row in history
        ],
        "canTransitionTo": list(transitions_from(cohort["status"])),
    }


@app.query(name="learning.chat", allow=member)
async def chat(q: Query, *, cohort_id: UUID, access: str = "", limit: int = chat_rules.NEWEST) -> list[dict[str, Any]]:
    """Return the newest messages, at most 200, the newest last, with names, avatars and reactions."""
    if not await is_signed_in(q, access):
        return []
    q.watch("learning.chat_messages", cohort_id=cohort_id)
    q.watch("learning.chat_reactions", cohort_id=cohort_id)
    q.ignore("learning.users")  # a changed name appears with the next message
    shown = min(max(limit, 1), chat_rules.MAX_NEWEST)
    reader = claimed_user(access)
    return [dict(row) for row in await chat_rows.newest(q, cohort_id, shown, reader=reader)]


@app.query(name="learning.unread", allow=member_self)
async def unread(q: Query, *, cohort_id: UUID, user_id: UUID, access: str = "") -> dict[str, int]:
    """Return how many messages of others a student has not read."""
    if not await is_signed_in(q, access):
        return {"unread": 0}
    q.watch("learning.chat_messages", cohort_id=cohort_id)
    q.watch("learning.chat_reads", cohort_id=cohort_id, user_id=user_id)
    q.ignore("learning.enrollments")
    return {"unread": await chat_rows.unread(q, cohort_id, user_id)}


@app.query(name="learning.online_users", allow=member)
async def online_users(q: Query, *, cohort_id: UUID, access: str = "") -> dict[str, Any]:
    """Return how many are online or away in a cohort, and the names of at most 50 of them.

    While that is everybody, each arrival is shown at once. A larger crowd is counted again after a time that grows with
    it, so that all its pages together ask about 20 times a second however many there are.
    """
    if not await is_signed_in(q, access):
        return {"count": 0, "users": []}
    place = place_of(cohort_id)
    q.ignore("onceward.presence", "onceward.live_nodes", "learning.users")
    rows = await views.present(q, place, MOST_NAMES)
    count = rows[0]["present"] if rows else 0
    if count <= MOST_NAMES:
        q.watch("onceward.presence", place=place)
        q.stale_at(rows[0]["next_end"] if rows else None)
    else:
        q.stale_after(max(SOONEST_COUNT_S, count / COUNTS_PER_SECOND))
    names = await views.people(q, [id for row in rows if (id := as_uuid(row["user_id"])) is not None])
    users = [
        {
            "userId": row["user_id"],
            "status": row["status"],
            "name": person["name"],
            "avatar": person["avatar"],
        }
        for row in rows
        if (person := names.get(as_uuid(row["user_id"]) or UUID(int=0))) is not None
    ]
    users.sort(key=lambda each: (str(each["name"]).lower(), each["userId"]))  # ids are random, names mean something
    return {"count": count, "users": users}


@app.query(name="learning.admin_dashboard", allow="viewer")
async def admin_dashboard(q: Query) -> dict[str, Any]:
    """Return the figures of an organization today (UTC), and the ten newest activities."""
    q.watch("learning.enrollments")
    q.watch("learning.cohorts")
    q.watch("learning.activity_log")
    now: datetime = await q.fetchval("select onceward.now()")
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    q.stale_at(start_of_next_day(now) + timedelta(seconds=1))
    totals = await views.totals(q, q.organization, midnight)
    return {
        "activeEnrollments": totals["active"],
        "todayEnrollments": totals["today"],
        "todayRevenue": await views.revenue(q, q.organization, midnight),
        "activeCohorts": totals["cohorts"],
        "pendingRefunds": totals["refunds"],
        "recentActivity": [dict(row) for row in await views.activities(q, q.organization)],
        "lastUpdated": now,
    }


@app.query(name="learning.admin_cohorts", allow="viewer")
async def admin_cohorts(q: Query) -> list[dict[str, Any]]:
    """Return the cohorts of an organization with places, waitlist, NPS and revenue."""
    q.watch("learning.enrollments")
    q.watch("learning.cohorts")
    q.watch("learning.checkouts")
    q.watch("learning.waitlist_entries")
    q.watch("learning.seat_blocks")
    q.watch("learning.cohort_metrics")
    q.ignore("onceward.capacity_pools")
    q.stale_after(60)
    return [dict(row) | {"id": str(row["id"])} for row in await views.cohorts(q, q.organization)]


@app.query(name="learning.student_home", allow=enrolled)
async def student_home(q: Query, *, enrollment_id: UUID, access: str = "") -> dict[str, Any] | None:
    """Return what a student sees: sessions, progress, resources and the certificate."""
    if not await is_signed_in(q, access):
        return None
    q.watch("learning.enrollments", id=enrollment_id)
    row = await views.enrollment(q, enrollment_id)
    if row is None:
        return None
    q.watch("learning.cohorts", id=row["cohort_id"])
    q.watch("learning.sessions", cohort_id=row["cohort_id"])
    q.watch("learning.content_items", cohort_id=row["cohort_id"])
    for table in ("bookings", "attendance_observations", "progress", "certificates", "submissions", "quiz_results"):
        q.watch(f"learning.{table}", enrollment_id=enrollment_id)
    q.ignore("learning.users", "learning.supplemental_resources", "learning.quiz_questions")
    q.stale_after(60)
    standing = await certificates.standing(q, enrollment_id)
    certificate = await certificates.by_enrollment(q, enrollment_id)
    assert standing is not None
    return {
        "enrollmentId": str(enrollment_id),
        "cohortId": str(row["cohort_id"]),
        "cohortName": row["cohort_name"],
        "cohortStatus": row["cohort_status"],
        "status": row["status"],
        "hasAccess": row["has_access"],
        "accessExpiresAt": row["access_expires_at"],
        "zoomLink": row["zoom_link"] if row["has_access"] else None,
        "slackChannelUrl": row["slack_channel_url"] if row["has_access"] else None,
        "sessions": [dict(each) for each in await views.sessions(q, row["cohort_id"], enrollment_id)],
        "items": [dict(each) for each in await views.items(q, row)],
        "resources": await views.resources(q, enrollment_id),
        "completionPercentage": standing.completion,
        "attendancePercentage": standing.attendance,
        "missingForCertificate": list(standing.missing()),
        "certificate": None
        if certificate is None
        else {
            "credentialId": certificate["credential_id"],
            "url": certificate["url"],
            "issuedAt": certificate["issued_at"],
            "revokedAt": certificate["revoked_at"],
        },
    }
