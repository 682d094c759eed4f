"""Certificates: one rule, three moments, one certificate, a PDF in any alphabet, revocation."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from onceward.testing import assert_published, assert_sent, crash_test, drain
from onceward_apps.learning import certificate_pdf, certificates
from onceward_apps.learning.certificates import certify_cohort, new_credential_id
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.progress import Standing
from tests.learning.classroom import Classroom
from tests.learning.school import School

GOOD = Standing(
    items_required=5,
    items_done=4,
    sessions_ended=5,
    sessions_attended=4,
    has_live_sessions=True,
    required_attendance=80,
    exit_survey_done=True,
    cohort_status="COMPLETED",
    enrollment_status="ACTIVE",
)


def but(**changes: object) -> Standing:
    from dataclasses import replace

    return replace(GOOD, **changes)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (GOOD, ()),
        (but(enrollment_status="EXPIRED"), ()),
        (but(items_done=3), ("completion",)),
        (but(items_required=0, items_done=0), ("completion",)),
        (but(sessions_attended=3), ("attendance",)),
        (but(sessions_attended=3, required_attendance=60), ()),
        (but(sessions_ended=0, sessions_attended=0), ("attendance",)),
        (but(sessions_ended=0, sessions_attended=0, has_live_sessions=False), ()),
        (but(exit_survey_done=False), ("exit_survey",)),
        (but(cohort_status="IN_PROGRESS"), ("cohort_not_completed",)),
        (but(enrollment_status="REFUNDED"), ("enrollment_ended",)),
        (but(enrollment_status="REFUND_PENDING", items_done=0), ("enrollment_ended", "completion")),
    ],
)
def test_the_rule_names_what_is_missing(found: Standing, missing: tuple[str, ...]) -> None:
    assert found.missing() == missing
    assert found.is_eligible is (missing == ())


def test_percentages_without_a_denominator_are_unknown() -> None:
    assert but(items_required=0, items_done=0).completion is None
    assert but(sessions_ended=0, sessions_attended=0).attendance is None
    assert but(has_live_sessions=False).attendance is None
    assert (GOOD.completion, GOOD.attendance) == (80, 80)


def test_credential_ids_are_random_and_readable() -> None:
    ids = {new_credential_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(len(each) == 22 and not set("ILU") & set(each[3:]) for each in ids)


def test_the_pdf_has_any_alphabet_and_the_same_bytes_for_the_same_values() -> None:
    snapshot = {
        "organizationName": "Escola São João",
        "studentName": "Ελένη Дмитриевна محمد <script>" + "x" * 80,
        "cohortName": "Data",
        "startDate": "2026-01-05T09:00:00+00:00",
        "endDate": "2026-03-05T09:00:00+00:00",
        "completionPercentage": 96.0,
        "attendancePercentage": None,
    }
    at = datetime(2026, 3, 6, tzinfo=UTC)
    first = certificate_pdf.render(snapshot, "OW-1", "https://x.example/c/OW-1", at)
    assert first.startswith(b"%PDF-")
    assert len(first) > 5000
    assert first == certificate_pdf.render(snapshot, "OW-1", "https://x.example/c/OW-1", at)


@pytest.fixture
async def room(school: School) -> Classroom:
    return await Classroom.open(school)


async def graduate(room: Classroom, cohort: UUID, name: str) -> UUID:
    enrollment = await room.enrol(cohort, name)
    await room.finish(enrollment, items=1)
    await room.answer("exit-1", enrollment, overallSatisfaction=9)
    return enrollment


@pytest.mark.acceptance("triggerCertificateGeneration", "triggerCertificateIssuedWebhook")
async def test_completing_a_cohort_certifies_those_who_earned_it_once(room: Classroom) -> None:
    cohort = await room.cohort(items=1)
    one = await graduate(room, cohort, "Ada")
    lazy = await room.enrol(cohort, "Lazy")
    await room.answer("exit-1", lazy, overallSatisfaction=9)
    for status in ("CONFIRMED", "IN_PROGRESS", "COMPLETED"):
        await room.school.set_status(cohort, status)
    await drain(room.engine)
    await room.school.schedule("learning.certificates")
    await room.answer("exit-1", one, overallSatisfaction=10)

    rows = await room.school.db.fetch("select * from learning.certificates")
    [row] = rows
    assert row["enrollment_id"] == one
    assert row["snapshot"]["studentName"] == "Ada"
    assert row["url"] == f"https://learn.example/learn/certificates/{row['credential_id']}"
    assert bytes(row["document"]).startswith(b"%PDF-")
    await assert_published(room.engine, "certificate.issued", count=1)


@pytest.mark.acceptance("triggerCertificateGeneration")
async def test_the_daily_check_has_no_window_and_takes_expired_enrolments(room: Classroom) -> None:
    cohort = await room.cohort(items=1)
    enrollment = await graduate(room, cohort, "Ada")
    await room.status(cohort, "COMPLETED")
    await room.school.db.execute("update learning.enrollments set status = 'EXPIRED'")
    await room.school.later(days=200)
    await room.school.schedule("learning.certificates")
    assert (await room.school.row("certificates", enrollment_id=enrollment)) is not None


async def test_a_revoked_certificate_stays_revoked_and_is_not_issued_again(room: Classroom) -> None:
    cohort = await room.cohort(items=1)
    enrollment = await graduate(room, cohort, "Ada")
    await room.status(cohort, "COMPLETED")
    await room.school.schedule("learning.certificates")
    async with room.school.transaction() as tx:
        assert await certificates.revoke_certificate(tx, enrollment, reason="refunded")
        assert not await certificates.revoke_certificate(tx, enrollment, reason="again")
    await room.school.schedule("learning.certificates")
    row = await room.school.row("certificates", enrollment_id=enrollment)
    assert row["revoked_reason"] == "refunded"


async def test_certifying_survives_every_crash(room: Classroom, thorough: bool) -> None:
    cohort = await room.cohort(items=1)
    await graduate(room, cohort, "Ada")
    await graduate(room, cohort, "Bea")
    await room.status(cohort, "COMPLETED")
    db = room.school.db

    async def arrange() -> None:
        await room.engine.enqueue(certify_cohort.for_organization(room.school.organization), cohort_id=cohort)

    async def observe() -> object:
        rows = await db.fetch(
            "select enrollment_id, document is not null as written from learning.certificates order by 1"
        )
        events = await db.fetchval("select count(*) from onceward.published where type = 'certificate.issued'")
        return [tuple(row) for row in rows], events

    async def reset() -> None:
        await db.execute(
            "truncate learning.certificates, onceward.jobs, onceward.work, onceward.attempts, onceward.published cascade"
        )

    await crash_test(room.engine, arrange=arrange, observe=observe, reset=reset, every=thorough)


@pytest.mark.acceptance("reissueCertificate")
async def test_a_corrected_name_replaces_the_certificate_and_the_older_one_says_so(room: Classroom) -> None:
    school, cohort = room.school, await room.cohort(items=1)
    enrollment = await graduate(room, cohort, "Ada")
    await room.status(cohort, "COMPLETED")
    await school.schedule("learning.certificates")
    credential = (await school.row("certificates", enrollment_id=enrollment))["credential_id"]
    user = (await school.row("enrollments", id=enrollment))["user_id"]

    async def correct(name: str) -> int:
        async with school.transaction() as tx:
            return await certificates.correct_name(tx, user, name, reason="a typing error", actor="op")

    assert [await correct("Ada Lovelace"), await correct("Ada Lovelace")] == [1, 0]
    await drain(room.engine)
    old = await school.row("certificates", credential_id=credential)
    new = await school.row("certificates", id=old["replaced_by"])
    assert (old["revoked_reason"], old["snapshot"]["studentName"]) == ("replaced", "Ada")
    assert new["snapshot"] == old["snapshot"] | {"studentName": "Ada Lovelace"}
    assert (new["revoked_at"], new["document"][:4]) == (None, b"%PDF")
    [mail] = await assert_sent(room.engine, "certificate-reissued", count=1)
    assert mail.data["certificateUrl"] == new["url"]
    async with school.transaction() as tx:
        assert await certificates.check(tx, enrollment) is None, "it has one"
        with pytest.raises(LearningError, match="has the name 'Ada Lovelace' already"):
            await certificates.reissue(tx, enrollment, reason="x", actor="op")
        assert await certificates.revoke_certificate(tx, enrollment, reason="x")
        with pytest.raises(NotFound, match="no valid certificate"):
            await certificates.reissue(tx, enrollment, reason="x", actor="op")
