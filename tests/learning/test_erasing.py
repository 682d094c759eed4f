"""Erasing a student: what they wrote and what names them is gone, the money still adds up."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from onceward.messages import Sender
from onceward.messages.channels import FolderChannel
from onceward.runtime import FEATURES
from onceward.testing import drain
from onceward.trust import verify
from onceward.trust.erase import erase
from onceward.work import AppRegistry, Worker
from onceward_apps.learning import app as learning
from onceward_apps.learning import certificate_pdf, chat, sign_in, student_mails, waitlist
from onceward_apps.learning.certificates import render_certificate
from onceward_apps.learning.checkout import start_extension
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.refund_requests import refund_enrollment
from onceward_apps.learning.routes.templates import page
from onceward_apps.learning.store import crm, people
from tests.learning.classroom import Classroom
from tests.learning.school import PRICE, School, zone_of_morning
from tests.learning.test_refunds import intent, refund_at_stripe
from tests.queries import until_query

ALL = FEATURES.plus(learning.features())
ERASERS = [eraser for erasers in ALL.load("erasers") for eraser in erasers]
SECRET = "my cat is called Byron"


async def graduate(school: School, room: Classroom) -> None:
    """Ada pays for two courses, is refunded for one and partly for the other, chats, answers surveys, graduates."""
    ada = await school.student("Ada")
    cohort = await school.cohort(has_live_sessions=False)
    enrollment = await school.enrol(cohort, ada)
    other = await school.enrol(await school.cohort(), ada)
    async with school.transaction() as tx:
        await refund_enrollment(tx, other, reason="requested by ada@example.org", actor="ops")
    refund_at_stripe(school, await intent(school, enrollment), 10000)
    await school.deliver()
    await school.db.execute(
        "insert into learning.content_items (organization_id, cohort_id, kind, title)"
        " values ($1, $2, 'lesson', 'Lesson')",
        school.organization,
        cohort,
    )
    await room.finish(enrollment, items=1)
    for status in ("CONFIRMED", "IN_PROGRESS"):
        await school.set_status(cohort, status)  # type: ignore[arg-type]
    async with school.transaction() as tx:
        await chat.post(tx, cohort, ada, SECRET)
    await room.answer("intake-1", enrollment, experienceLevel="BEGINNER", primaryGoal=SECRET)
    await school.set_status(cohort, "COMPLETED")
    await room.answer("exit-1", enrollment, overallSatisfaction=9, suggestions=SECRET)
    await drain(school.engine)


async def test_an_erased_student_leaves_money_behind_and_nothing_else(school: School) -> None:
    room = await Classroom.open(school)
    await graduate(school, room)
    ada = await school.row("users", email="ada@example.org")
    async with school.transaction() as tx:
        await sign_in.send_link(tx, ada["id"])
        used = await sign_in.send_link(tx, ada["id"])
    session = await sign_in.redeem(school.engine, used)
    before = await school.row("certificates", user_id=ada["id"])
    assert before["document"] is not None
    assert before["snapshot"]["studentName"] == "Ada"
    named = page("verify.html", certificate=before, credential_id="OW-1", now=before["issued_at"])
    assert "<dd>Ada</dd>" in bytes(named.body).decode()

    await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")

    assert await school.count("chat_messages", "message <> '(erased)'") == 0
    assert await school.count("survey_responses", "answers::text like '%Byron%'") == 0
    assert await school.count("survey_responses") == 2
    certificate = await school.row("certificates", user_id=ada["id"])
    assert (certificate["snapshot"], certificate["document"]) == ({"erased": True}, None)
    assert await school.count("sign_in_links") == await school.count("student_sessions") == 0
    assert await sign_in.find_session(school.engine, session.token) is None
    with pytest.raises(LearningError):
        await sign_in.redeem(school.engine, used)
    user = await school.row("users", id=ada["id"])
    assert (user["name"], user["erased_at"] is not None) == ("", True)
    assert (
        await school.count("enrollments", "student_profile::text || coalesce(feedback::text, '') like '%Byron%'") == 0
    )
    kept = "select count(*) from onceward.payment_refunds where reason like '%ada%'"
    assert await school.db.fetchval(kept) == await school.payments("email is not null") == 0

    money = await school.db.fetchrow("select sum(received) as paid, sum(refunded) as back from onceward.payments")
    assert money is not None
    assert (money["paid"], money["back"]) == (2 * PRICE, PRICE + 10000)
    checks = [check for checks in ALL.load("checks") for check in checks]
    assert [result.name for result in await verify(school.db, checks) if not result.ok] == []

    # What runs later does not bring the student back.
    await school.engine.enqueue(
        render_certificate.for_organization(school.organization), certificate_id=certificate["id"]
    )
    async with school.transaction() as tx:
        _, upto, _ = await crm.resume(tx, "contacts")
        sent = await crm.changed_users(tx, school.organization, upto=upto, limit=10)
    assert [row["id"] for row in sent] == []
    await drain(school.engine)
    assert (await school.row("certificates", user_id=ada["id"]))["document"] is None
    shown = page("verify.html", certificate=certificate, credential_id="OW-1", now=None)
    assert "removed" in bytes(shown.body).decode()


async def test_a_certificate_that_is_drawn_during_the_erasure_is_not_stored(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job has read the name before the erasure, and stores the document after it."""
    room = await Classroom.open(school)
    await graduate(school, room)
    ada = await school.row("users", email="ada@example.org")
    certificate = await school.row("certificates", user_id=ada["id"])
    drawn, erased, draw = threading.Event(), threading.Event(), certificate_pdf.render

    def draw_slowly(*values: Any) -> bytes:
        drawn.set()
        assert erased.wait(30)
        return draw(*values)

    monkeypatch.setattr(certificate_pdf, "render", draw_slowly)
    await school.engine.enqueue(
        render_certificate.for_organization(school.organization), certificate_id=certificate["id"]
    )
    job = asyncio.create_task(drain(school.engine))
    assert await asyncio.to_thread(drawn.wait, 30)
    await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")
    erased.set()
    await job
    assert (await school.row("certificates", id=certificate["id"]))["document"] is None


async def test_an_erased_student_gets_no_mail_no_invite_and_no_booking(school: School) -> None:
    room = await Classroom.open(school)
    ada, bob = await school.student("Ada"), await school.student("Bob")
    morning = zone_of_morning(datetime.now(UTC))
    starting = await school.cohort(starts_in_days=0.5, has_live_sessions=False, extension_price=9900, time_zone=morning)
    enrollment = await school.enrol(starting, ada)
    await school.enrol(starting, bob)
    cancelled = await school.enrol(await school.cohort(name="Cancelled"), ada)
    full = await school.cohort(capacity=1, name="Full")
    seat = await school.enrol(full)
    async with school.transaction() as tx:
        await waitlist.join(tx, full, ada)
        await waitlist.join(tx, full, bob)
    session = await school.start(await school.cohort(name="Late"), ada)
    earlier = await school.db.fetchval("select max(id) from onceward.messages")

    await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")

    await school.set_status(starting, "CONFIRMED")
    await school.schedule("learning.pre_cohort_mails")
    school.stripe.pay(session)
    refund_at_stripe(school, await intent(school, cancelled))
    refund_at_stripe(school, await intent(school, seat))
    await school.deliver()
    await school.schedule("learning.waitlist_promotion")
    await room.answer("intake-1", enrollment, experienceLevel="BEGINNER")
    await school.db.execute("update learning.enrollments set access_expires_at = now() + interval '1 minute'")
    await school.schedule("learning.access_expiry")
    with pytest.raises(NotFound):
        await start_extension(school.engine, school.organization, enrollment_id=enrollment)
    with pytest.raises(NotFound):
        await school.start(starting, ada)

    mails = await school.db.fetch(
        "select template, coalesce(address, recipient) as address from onceward.messages where id > $1", earlier
    )
    to_bob = {mail["template"] for mail in mails if mail["address"] == "bob@example.org"}
    assert to_bob == {
        "cohort-confirmed",
        "cohort-starting-tomorrow",
        "waitlist-spot-available",
        "access-expiring-today",
    }
    assert [mail["template"] for mail in mails if "invalid" in mail["address"] or "ada" in mail["address"]] == []


async def test_a_mail_that_was_being_queued_during_the_erasure_is_not_sent(school: School, tmp_path: Path) -> None:
    """The transaction reads the student before the erasure, and commits after it, on a connection of its own."""
    ada, bob = await school.student("Ada"), await school.student("Bob")
    async with school.transaction() as tx:
        students = [await people.user(tx, each) for each in (ada, bob)]
        await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")
        for student in students:
            data = {"name": student["name"], "organization": "School", "minutes": 30, "link": "https://learn.example"}
            await student_mails.mail(tx, "student-sign-in", student, key=f"race:{student['id']}", data=data)
    left = "select count(*) from onceward.messages where status in ('pending', 'processing')"
    assert await school.db.fetchval(left) == 2, "the erasure could not see the mail"
    registry, folder = AppRegistry(), tmp_path / "mail"
    Sender(school.db, [FolderChannel(folder, sender="x@example.org")], school.engine.templates).install(registry)
    worker = Worker(school.db, registry, school.engine.waker, open_tx=school.engine.open_tx)
    await worker.start()
    await until_query(school.db, left, 0)
    await worker.stop()
    mails = [path.read_text() for path in folder.rglob("*.eml")]
    assert len(mails) == 1
    assert "To: bob@example.org" in mails[0]
    row = await school.db.fetchrow("select * from onceward.messages where key = $1", f"race:{ada}")
    assert row is not None
    assert (row["status"], row["reason"], row["address"], row["data"]) == ("cancelled", "erased", None, None)


def test_every_mail_to_a_student_goes_through_the_module_that_knows_who_was_erased() -> None:
    """Only mails to operators, to the contact of a company, and to an address that a booking names, are sent without
    it."""
    folder = Path(inspect.getfile(student_mails)).parent
    sending = {path.name for path in folder.rglob("*.py") if re.search(r"tx\.send(_many)?\(", path.read_text())}
    assert sending == {"student_mails.py", "refund_jobs.py", "analytics.py", "bookings.py", "seats.py"}
