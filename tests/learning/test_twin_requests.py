"""Twin requests to the school: at once they leave what one would. See `tests/twins.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from onceward.desk.form_changes import version
from onceward.integrations.stripe import StripeSimulator
from onceward.testing import until
from onceward_apps.learning import app as learning
from onceward_apps.learning import checks, discounts, link_tokens, quizzes, seats, waitlist
from onceward_apps.learning.cohorts import NewSession
from onceward_apps.learning.desk.cohorts import PlacesForm, load_cohort
from onceward_apps.learning.desk.enrolments import load_left, load_name, load_priority
from onceward_apps.learning.desk.grade_actions import load_questions
from onceward_apps.learning.desk.sale_actions import load_limits
from onceward_apps.learning.desk.session_actions import load_absent, load_item, load_session
from onceward_apps.learning.store import certificates, curriculum
from tests import twins
from tests.learning.server import PUBLIC, STUDENT, Server, running
from tests.twins import Case, Cases

STAFF = "/api/v1/learning"
DESK = "/dashboard/learning"
PRICE = 49900
DRAWING = frozenset({"jobs"})  # a document is drawn meanwhile
NEVER_OPENED = "select count(*) from learning.sign_in_links where used_at is null"
VALID = {
    "cohorts": "select count(*) from learning.cohorts",
    "changes of status": "select count(*) from learning.cohort_status_history",
    "places of cohorts": "select coalesce(sum(max_capacity), 0) from learning.cohorts",
    "sessions": "select count(*) from learning.sessions where cancelled_at is null",
    "items": "select count(*) from learning.content_items",
    "users": "select count(*) from learning.users",
    "enrolments": "select count(*) from learning.enrollments where status = 'ACTIVE'",
    "places taken": "select count(*) from onceward.capacity_claims where state in ('held', 'sold')",
    "payable checkouts": "select count(*) from learning.checkouts where status = 'started'",
    "payments": "select count(*) from onceward.payments",
    "refunds": "select count(*) from onceward.payment_refunds",
    "attempts of refunds": "select coalesce(sum(attempt), 0) from onceward.payment_refunds",
    "refunded": "select coalesce(sum(refunded), 0) from onceward.payments",
    "waiting": "select count(*) from learning.waitlist_entries where status in ('ACTIVE', 'INVITED')",
    "priority of those who wait": "select coalesce(sum(priority), 0) from learning.waitlist_entries",
    "certificates": "select count(*) from learning.certificates where revoked_at is null",
    "attended": "select count(*) from (select distinct on (enrollment_id, session_id) attended"
    " from learning.attendance_observations order by enrollment_id, session_id, id desc) newest where attended",
    "sign-in links": NEVER_OPENED,
    "open sessions": "select count(*) from learning.student_sessions",
    "files": "select count(*) from learning.submission_files where discarded_at is null",
    "done items": "select count(*) from learning.progress",
    "chat messages": "select count(*) from learning.chat_messages where deleted_at is null",
    "chat edits": "select count(*) from learning.chat_messages where edited_at is not null",
    "reactions": "select count(*) from learning.chat_reactions",
    "reads": "select count(*) from learning.chat_reads",
    "survey maps": "select count(*) from learning.survey_maps",
    "mails": f"select count(*) from onceward.messages where {twins.NO_NOTICE}",
    "published": "select count(*) from onceward.published",
    "present": "select count(*) from onceward.presence",
}
EVERYTHING = {
    "checkouts": "select count(*) from learning.checkouts",
    "enrolments ever": "select count(*) from learning.enrollments",
    "waitlist ever": "select count(*) from learning.waitlist_entries",
    "invites": "select count(*) from learning.waitlist_invites",
    "observations": "select count(*) from learning.attendance_observations",
    "activity": "select count(*) from learning.activity_log",
    "page views": "select count(*) from learning.page_views",
    # Besides what the school does by itself, the engine lists the movements of an account when it is due.
    "jobs": f"{twins.JOBS} and task not in ('learning.promote_waitlist', 'payments.list')",
    "audit": "select count(*) from onceward.audit_log where action <> 'organization.acted_for'",
    "new names": "select count(distinct name) from learning.users",
}


class Stage(twins.Stage):
    """A school on a port, with what cases begin from."""

    valid = VALID
    everything = EVERYTHING

    def __init__(self, server: Server, stripe: StripeSimulator) -> None:
        super().__init__(server.url, server.db)
        self.server = server
        self.stripe = stripe
        self.staff = {"authorization": f"Bearer {server.key}"}

    def outside(self) -> dict[str, int]:
        books = self.stripe.books
        open_pages = [each for each in books.sessions.values() if each["status"] == "open"]
        return {"open payment pages": len(open_pages), "refunds at the service": len(books.refunds)}

    def new_name(self) -> str:
        return f"Student{next(self.numbers)}"

    async def cohort(self, *, begun: bool = False, items: int = 0, **more: Any) -> UUID:
        """A cohort with a name of its own, open for enrolment, and in progress if `begun`."""
        cohort = await self.server.cohort(f"Course {next(self.numbers)}", **more)
        async with self.server.engine.transaction(organization=self.server.organization) as tx:
            for number in range(items):
                await curriculum.add_item(tx, cohort, kind="lesson", title=f"Lesson {number}")
        if begun:
            await self.server.begin(cohort)
        return cohort

    async def enrolled(self, *, begun: bool = True, **more: Any) -> tuple[UUID, UUID, dict[str, str]]:
        """A cohort in progress, the enrolment of a student in it, and the headers of the student's requests."""
        cohort = await self.cohort(**more)
        name = self.new_name()
        await self.db.execute("delete from onceward.rates")
        enrollment = await self.server.enrol(cohort, name)
        if begun:
            await self.server.begin(cohort)
        user = await self.db.fetchval("select user_id from learning.enrollments where id = $1", enrollment)
        return cohort, enrollment, {"authorization": f"Bearer {self.server.jwt(user)}"}

    async def paid(self, **more: Any) -> UUID:
        """An enrolment that was paid."""
        cohort = await self.cohort(price=PRICE, **more)
        body = {"email": f"{self.new_name().lower()}@example.org"}
        await self.db.execute("delete from onceward.rates")
        _, answer = await self.server.call("POST", f"{PUBLIC}/cohorts/{cohort}/checkout", body)
        self.stripe.pay(answer["url"].rsplit("/", 1)[-1])
        query = "select id from learning.enrollments where cohort_id = $1"
        return await until(lambda: self.db.fetchval(query, cohort))

    async def failed_refund(self) -> UUID:
        """A refund that the bank returned. The next attempt waits for an hour."""
        enrollment = await self.paid()
        self.stripe.books.next_refund_statuses.append("failed")
        path = f"{STAFF}/enrollments/{enrollment}/refund"
        await self.server.call("POST", path, {"reason": "ill"}, token=self.server.key)
        failed = "select r.id from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id"
        failed += " where p.subject_id = $1::uuid::text and r.status = 'failed'"
        return await until(lambda: self.db.fetchval(failed, enrollment))

    async def message(self) -> tuple[str, dict[str, str]]:
        """The path of a chat message, and the headers of its author."""
        cohort, _, student = await self.enrolled()
        path = f"{STUDENT}/cohorts/{cohort}/chat"
        _, posted = await self.server.call("POST", path, {"message": "hello"}, token=student["authorization"][7:])
        return f"{path}/{posted['messageId']}", student


def dates(**more: Any) -> dict[str, Any]:
    starts = datetime.now(UTC).replace(microsecond=0) + timedelta(days=20)
    return {"starts_at": starts.isoformat(), "ends_at": (starts + timedelta(days=28)).isoformat(), **more}


async def new_cohort(stage: Stage) -> Case:
    body = dates(name=f"New {next(stage.numbers)}", max_capacity=5, price=PRICE, currency="EUR")
    return Case(f"{STAFF}/cohorts", body, [{**body, "description": f"{n}"} for n in range(4)], stage.staff)


async def status(stage: Stage) -> Case:
    cohort = await stage.cohort()
    body = {"status": "CANCELLED", "reason": "storm"}
    others = [{"status": "CANCELLED", "reason": f"storm {n}"} for n in range(4)]
    return Case(f"{STAFF}/cohorts/{cohort}/status", body, others, stage.staff)


async def capacity(stage: Stage) -> Case:
    cohort = await stage.cohort()
    return Case(f"{STAFF}/cohorts/{cohort}/capacity", {"max_capacity": 12}, [], stage.staff)


async def session(stage: Stage) -> Case:
    cohort = await stage.cohort()
    body = session_times(5) | {"title": "Workshop"}
    others = [{**body, "title": f"Workshop {n}"} for n in range(4)]
    return Case(f"{STAFF}/cohorts/{cohort}/sessions", body, others, stage.staff)


def session_times(days: int) -> dict[str, Any]:
    starts = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    return {"starts_at": starts.isoformat(), "ends_at": (starts + timedelta(hours=1)).isoformat()}


async def planned_session(stage: Stage) -> UUID:
    starts = datetime.now(UTC) + timedelta(days=2)
    new = NewSession(title="Workshop", starts_at=starts, ends_at=starts + timedelta(hours=1))
    cohort = await stage.cohort(sessions=[new])
    return await stage.db.fetchval("select id from learning.sessions where cohort_id = $1", cohort)


async def cancel_session(stage: Stage) -> Case:
    return Case(f"{STAFF}/sessions/{await planned_session(stage)}/cancel", {}, [{"n": 1}], stage.staff)


async def change_session(stage: Stage) -> Case:
    body = session_times(5) | {"title": "Workshop"}
    return Case(f"{STAFF}/sessions/{await planned_session(stage)}", body, [], stage.staff)


async def recording(stage: Stage) -> Case:
    path = f"{STAFF}/sessions/{await planned_session(stage)}/recording"
    return Case(path, {"url": "https://video.example/1"}, [], stage.staff)


async def item(stage: Stage) -> Case:
    cohort = await stage.cohort()
    body = {"kind": "lesson", "title": "Joins"}
    return Case(f"{STAFF}/cohorts/{cohort}/items", body, [{**body, "position": n} for n in range(4)], stage.staff)


async def enrol_by_hand(stage: Stage) -> Case:
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name, "reason": "scholarship"}
    path = f"{STAFF}/cohorts/{await stage.cohort(price=PRICE)}/enrollments"
    return Case(path, body, [{**body, "reason": f"scholarship {n}"} for n in range(4)], stage.staff)


async def waiting(stage: Stage) -> UUID:
    """Somebody who waits for a cohort."""
    cohort = await stage.cohort(max_capacity=0)
    _, user = await new_user(stage)
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        return (await waitlist.join(tx, cohort, UUID(user["id"])))["id"]


async def priority(stage: Stage) -> Case:
    return Case(f"{STAFF}/waitlist/{await waiting(stage)}/priority", {"priority": 7}, [], stage.staff)


async def new_user(stage: Stage) -> tuple[int, Any]:
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name}
    return await stage.server.call("POST", f"{STAFF}/users", body, token=stage.server.key)


async def user(stage: Stage) -> Case:
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name}
    others = [{"email": f"{name.upper()}@example.org"}, {**body, "locale": "pt"}]
    return Case(f"{STAFF}/users", body, others, stage.staff)


async def change_user(stage: Stage) -> Case:
    _, made = await new_user(stage)
    name = stage.new_name()
    return Case(f"{STAFF}/users/{made['id']}", {"name": name}, [], stage.staff)


async def attendance(stage: Stage) -> Case:
    starts = datetime.now(UTC) + timedelta(days=2)
    new = NewSession(title="Workshop", starts_at=starts, ends_at=starts + timedelta(hours=1))
    cohort, enrollment, _ = await stage.enrolled(sessions=[new])
    id = await stage.db.fetchval("select id from learning.sessions where cohort_id = $1", cohort)
    body = {"session_id": str(id), "attended": True, "reason": "was there"}
    others = [{**body, "reason": f"was there {n}"} for n in range(4)]
    return Case(f"{STAFF}/enrollments/{enrollment}/attendance", body, others, stage.staff)


async def move(stage: Stage) -> Case:
    _, enrollment, _ = await stage.enrolled(begun=False)
    body = {"cohort_id": str(await stage.cohort()), "reason": "asked"}
    others = [{**body, "reason": f"asked {n}"} for n in range(4)]
    return Case(f"{STAFF}/enrollments/{enrollment}/move", body, others, stage.staff)


async def revoke(stage: Stage) -> Case:
    cohort, enrollment, _ = await stage.enrolled()
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        user = await tx.fetchval("select user_id from learning.enrollments where id = $1", enrollment)
        ids = {"credential_id": f"OW-{next(stage.numbers)}", "url": "https://x", "snapshot": {}}
        await certificates.issue(tx, enrollment, user, cohort, **ids)
    path = f"{STAFF}/enrollments/{enrollment}/certificate/revoke"
    return Case(path, {"reason": "wrong"}, [{"reason": f"wrong {n}"} for n in range(4)], stage.staff)


async def survey(stage: Stage) -> Case:
    path = f"{STAFF}/surveys/survey-{next(stage.numbers)}"
    return Case(path, {"kind": "exit"}, [{"kind": "exit", "fields": {"q": "rating"}}], stage.staff)


async def refund(stage: Stage) -> Case:
    path = f"{STAFF}/enrollments/{await stage.paid()}/refund"
    return Case(path, {"reason": "ill"}, [{"reason": f"ill {n}"} for n in range(4)], stage.staff)


async def retry(stage: Stage) -> Case:
    return Case(f"{STAFF}/refunds/{await stage.failed_refund()}/retry", {}, [{"n": 1}], stage.staff)


def on_the_desk(stage: Stage, action: str, *others: dict[str, str], ids: object = "", **given: str) -> Case:
    body = {"ids": str(ids), "step": "run", **given}
    return Case(f"{DESK}/{action}", body, [{**body, **each} for each in others], stage.staff, form=True)


async def create_on_the_desk(stage: Stage) -> Case:
    given = {"starts_at": "2031-05-01T09:00", "ends_at": "2031-06-01T09:00", "price": "499", "price.currency": "EUR"}
    more = {"max_capacity": "10", "required_attendance_percentage": "80"}
    return on_the_desk(
        stage, "cohorts/do/create", {"description": "other"}, name=f"Desk {next(stage.numbers)}", **given, **more
    )


async def resize_on_the_desk(stage: Stage) -> Case:
    cohort = await stage.cohort()
    places = await stage.db.fetchval("select max_capacity from learning.cohorts where id = $1", cohort)
    stamp = version(PlacesForm(max_capacity=places))
    return on_the_desk(stage, "cohorts/do/resize", ids=cohort, stamp=stamp, max_capacity="12")


async def loaded(stage: Stage, load: Any, id: object) -> dict[str, str]:
    """The stamp of a form that shows the present values of a row."""
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        return {"stamp": version(await load(tx, str(id)))}


async def edit_on_the_desk(stage: Stage) -> Case:
    cohort = await stage.cohort()
    given = {"name": f"Edited {next(stage.numbers)}", "price": "499", "price.currency": "EUR"}
    given |= {"starts_at": "2031-05-01T09:00", "ends_at": "2031-06-01T09:00"} | await loaded(stage, load_cohort, cohort)
    return on_the_desk(stage, "cohorts/do/edit", {"description": "other"}, ids=cohort, **given)


async def duplicate_on_the_desk(stage: Stage) -> Case:
    given = {"name": f"Copy {next(stage.numbers)}", "starts_at": "2031-05-01T09:00"}
    return on_the_desk(stage, "cohorts/do/duplicate", {"n": "1"}, ids=await stage.cohort(items=1), **given)


async def enrol_on_the_desk(stage: Stage) -> Case:
    cohort = await stage.cohort(price=PRICE)
    name = stage.new_name()
    people = f"{name}@example.org {name}"
    return on_the_desk(stage, "cohorts/do/enrol", {"reason": "other"}, ids=cohort, people=people, reason="scholarship")


async def add_session_on_the_desk(stage: Stage) -> Case:
    times = {name: f"{text[:16]}" for name, text in session_times(5).items()}
    cohort = await stage.cohort()
    return on_the_desk(stage, "cohorts/do/add_session", {"title": "Other"}, ids=cohort, title="Workshop", **times)


async def add_item_on_the_desk(stage: Stage) -> Case:
    given = {"title": "Joins", "kind": "lesson", "position": "1"}
    return on_the_desk(stage, "cohorts/do/add_item", {"body": "other"}, ids=await stage.cohort(), **given)


async def change_session_on_the_desk(stage: Stage) -> Case:
    id = await planned_session(stage)
    times = {name: f"{text[:16]}" for name, text in session_times(6).items()}
    given = {"title": "Workshop", **times} | await loaded(stage, load_session, id)
    return on_the_desk(stage, "sessions/do/change", ids=id, **given)


async def cancel_session_on_the_desk(stage: Stage) -> Case:
    id = await planned_session(stage)
    return on_the_desk(stage, "sessions/do/cancel", {"reason": "other"}, ids=id, reason="ill")


async def recording_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(
        stage, "sessions/do/set_recording", ids=await planned_session(stage), url="https://video.example/1"
    )


async def attendance_on_the_desk(stage: Stage) -> Case:
    starts = datetime.now(UTC) + timedelta(days=2)
    new = NewSession(title="Workshop", starts_at=starts, ends_at=starts + timedelta(hours=1))
    cohort, _, _ = await stage.enrolled(sessions=[new])
    begun = "update learning.sessions set starts_at = now() - interval '1 hour' where cohort_id = $1 returning id"
    id = await stage.db.fetchval(begun, cohort)
    return on_the_desk(stage, "sessions/do/check_off", ids=id, absent="", **await loaded(stage, load_absent, id))


async def an_item(stage: Stage) -> UUID:
    cohort = await stage.cohort(items=1)
    return await stage.db.fetchval("select id from learning.content_items where cohort_id = $1", cohort)


async def edit_item_on_the_desk(stage: Stage) -> Case:
    id = await an_item(stage)
    given = {"title": "Joins", "kind": "lesson", "position": "1"} | await loaded(stage, load_item, id)
    return on_the_desk(stage, "items/do/edit_item", ids=id, **given)


async def remove_item_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "items/do/remove_item", ids=await an_item(stage))


async def change_state_on_the_desk(stage: Stage) -> Case:
    cohort = await stage.cohort()
    return on_the_desk(
        stage, "cohorts/do/change_state", {"reason": "other"}, ids=cohort, status="CANCELLED", reason="few students"
    )


async def refund_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "enrolments/do/refund", {"reason": "other"}, ids=await stage.paid(), reason="ill")


async def move_on_the_desk(stage: Stage) -> Case:
    _, enrollment, _ = await stage.enrolled(begun=False)
    to = await stage.cohort()
    return on_the_desk(stage, "enrolments/do/move", {"reason": "other"}, ids=enrollment, cohort=str(to), reason="asked")


async def prioritise_on_the_desk(stage: Stage) -> Case:
    id = await waiting(stage)
    return on_the_desk(stage, "waitlist/do/prioritise", ids=id, priority="7", **await loaded(stage, load_priority, id))


async def remove_from_the_waitlist_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "waitlist/do/remove", {"reason": "other"}, ids=await waiting(stage), reason="asked")


async def repeat_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "refunds/do/repeat", {"n": "1"}, ids=await stage.failed_refund())


async def checkout(stage: Stage) -> Case:
    cohort = await stage.cohort(price=PRICE, instalment_price=9900, instalment_count=6)
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name}
    others = [{"email": f"{name.upper()}@example.org"}, {**body, "locale": "pt"}]
    return Case(f"{PUBLIC}/cohorts/{cohort}/checkout", body, others)


async def free_checkout(stage: Stage) -> Case:
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name}
    others = [{"email": f"{name.upper()}@example.org"}, {**body, "locale": "pt"}]
    return Case(f"{PUBLIC}/cohorts/{await stage.cohort()}/checkout", body, others)


async def join(stage: Stage) -> Case:
    cohort = await stage.cohort(max_capacity=0)
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name}
    others = [{"email": f"{name.upper()}@example.org"}, {**body, "locale": "pt"}]
    return Case(f"{PUBLIC}/cohorts/{cohort}/waitlist", body, others)


async def extension(stage: Stage) -> Case:
    _, enrollment, _ = await stage.enrolled(extension_price=5000)
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        token = await link_tokens.enrollment_token(tx, "extension", enrollment)
    return Case(f"{PUBLIC}/extensions/{token}/checkout", {}, [{"n": 1}])


async def view(stage: Stage) -> Case:
    path = f"{PUBLIC}/cohorts/{await stage.cohort()}/views"
    return Case(path, {"path": "/"}, several="a visitor who reloads a page views it twice", keyed=False)


async def sign_in(stage: Stage) -> Case:
    _, made = await new_user(stage)
    body = {"email": made["email"]}
    return Case(f"{PUBLIC}/sign-in", body, [{"email": made["email"].upper()}, {**body, "n": 1}])


async def sign_in_link(stage: Stage) -> str:
    _, made = await new_user(stage)
    await stage.db.execute("delete from onceward.rates")
    await stage.server.call("POST", f"{PUBLIC}/sign-in", {"email": made["email"]})
    link = "select data ->> 'link' from onceward.messages where template = 'student-sign-in' order by id desc limit 1"
    return (await stage.db.fetchval(link)).rsplit("/", 1)[-1]


async def open_session(stage: Stage) -> Case:
    token = await sign_in_link(stage)
    return Case(f"{PUBLIC}/session", {"token": token}, [{"token": token, "n": 1}])


async def close_session(stage: Stage) -> Case:
    token = await sign_in_link(stage)
    async with stage.server.http.post(f"{stage.url}{PUBLIC}/session", json={"token": token}) as answer:
        cookie = answer.cookies["learning_session"].value
    stage.server.http.cookie_jar.clear()
    return Case(f"{PUBLIC}/session", headers={"cookie": f"learning_session={cookie}"})


async def profile(stage: Stage) -> Case:
    _, _, student = await stage.enrolled()
    return Case(f"{STUDENT}/me", {"name": stage.new_name()}, [], student)


async def done(stage: Stage) -> Case:
    cohort, enrollment, student = await stage.enrolled(items=1)
    item = await stage.db.fetchval("select id from learning.content_items where cohort_id = $1", cohort)
    path = f"{STUDENT}/enrollments/{enrollment}/items/{item}"
    return Case(path, {"done": True}, [{}, {"done": True, "n": 1}], student)


async def chat(stage: Stage) -> Case:
    cohort, _, student = await stage.enrolled()
    body = {"message": "hello", "key": f"browser-{next(stage.numbers)}"}
    return Case(f"{STUDENT}/cohorts/{cohort}/chat", body, [{**body, "message": "hello again"}], student)


async def chat_without_key(stage: Stage) -> Case:
    cohort, _, student = await stage.enrolled()
    path = f"{STUDENT}/cohorts/{cohort}/chat"
    return Case(path, {"message": "yes"}, [], student, several="a student may say the same thing twice")


async def edit(stage: Stage) -> Case:
    path, student = await stage.message()
    return Case(path, {"message": "better"}, [{"message": " better "}], student)


async def delete(stage: Stage) -> Case:
    path, student = await stage.message()
    return Case(path, None, [], student)


async def react(stage: Stage) -> Case:
    path, student = await stage.message()
    return Case(f"{path}/reactions", {"emoji": "👍"}, [{"emoji": " 👍 "}], student)


async def read(stage: Stage) -> Case:
    path, _ = await stage.message()
    chat, _, message = path.rpartition("/")
    await stage.db.execute("delete from learning.chat_reads")
    user = await stage.db.fetchval("select user_id from learning.chat_messages where id = $1", int(message))
    student = {"authorization": f"Bearer {stage.server.jwt(user)}"}
    return Case(f"{chat}/read", {"message_id": int(message)}, [], student)


async def presence(stage: Stage) -> Case:
    cohort, _, student = await stage.enrolled()
    return Case(f"{STUDENT}/cohorts/{cohort}/presence", {}, [{"status": "away"}], student)


async def certified(stage: Stage) -> tuple[UUID, UUID]:
    """An enrolment with a certificate, and its student."""
    cohort, enrollment, _ = await stage.enrolled()
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        user = await tx.fetchval("select user_id from learning.enrollments where id = $1", enrollment)
        ids = {"credential_id": f"OW-{next(stage.numbers)}", "url": "https://x", "snapshot": {"studentName": "wrong"}}
        await certificates.issue(tx, enrollment, user, cohort, **ids)
    return enrollment, user


async def reissue(stage: Stage) -> Case:
    enrollment, _ = await certified(stage)
    path = f"{STAFF}/enrollments/{enrollment}/certificate/reissue"
    return Case(path, {"reason": "name"}, [{"reason": "other"}], stage.staff, uncounted=DRAWING)


async def correct_name_on_the_desk(stage: Stage) -> Case:
    _, user = await certified(stage)
    given = {"name": stage.new_name(), "reason": "name"} | await loaded(stage, load_name, user)
    return dataclasses.replace(on_the_desk(stage, "students/do/correct_name", ids=user, **given), uncounted=DRAWING)


async def revoke_on_the_desk(stage: Stage) -> Case:
    enrollment, _ = await certified(stage)
    return on_the_desk(stage, "enrolments/do/revoke", {"reason": "other"}, ids=enrollment, reason="wrong")


async def refund_a_part_on_the_desk(stage: Stage) -> Case:
    enrollment = await stage.paid()
    given = {"amount": "99", "amount.currency": "EUR", "reason": "ill"} | await loaded(stage, load_left, enrollment)
    return on_the_desk(stage, "enrolments/do/refund_a_part", {"reason": "other"}, ids=enrollment, **given)


async def code_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(
        stage, "discounts/do/add_code", {"percent": "30"}, code=f"SPRING-{next(stage.numbers)}", percent="20"
    )


async def change_code_on_the_desk(stage: Stage) -> Case:
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        id = (await discounts.add(tx, f"AUTUMN-{next(stage.numbers)}", percent=5, actor="op"))["id"]
    return on_the_desk(stage, "discounts/do/change_code", ids=id, most_uses="5", **await loaded(stage, load_limits, id))


async def seats_on_the_desk(stage: Stage) -> Case:
    given = {"company": "Acme", "number": "2", "contact_email": "hr@acme.example"}
    return on_the_desk(stage, "cohorts/do/reserve_seats", {"reference": "other"}, ids=await stage.cohort(), **given)


async def reserved(stage: Stage) -> tuple[UUID, str]:
    """Seats of a company, and the token of their link."""
    cohort = await stage.cohort()
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        values: dict[str, Any] = {"company": "Acme", "contact_email": "hr@acme.example", "number": 2}
        block = (await seats.reserve(tx, cohort, **values, actor="op"))["id"]
    await stage.db.execute("update learning.seat_blocks set link_sent_at = now() - interval '1 hour'")
    link = "select data ->> 'link' from onceward.messages where template = 'company-seats' order by id desc limit 1"
    return block, (await stage.db.fetchval(link)).rsplit("/", 1)[-1]


async def send_seats_on_the_desk(stage: Stage) -> Case:
    block, _ = await reserved(stage)
    return on_the_desk(stage, "seats/do/send_seats_link", {"n": "1"}, ids=block)


async def end_seats_on_the_desk(stage: Stage) -> Case:
    block, _ = await reserved(stage)
    return on_the_desk(stage, "seats/do/end_seats", {"reason": "other"}, ids=block, reason="not paid")


async def take_seat(stage: Stage) -> Case:
    _, token = await reserved(stage)
    name = stage.new_name()
    body = {"email": f"{name}@example.org", "name": name}
    return Case(f"{PUBLIC}/seats/{token}", body, [{"email": f"{name.upper()}@example.org"}])


async def coursework(stage: Stage, **item: Any) -> tuple[str, UUID, dict[str, str]]:
    """The path of an item that is graded, its id, and the headers of a student."""
    cohort, enrollment, student = await stage.enrolled()
    async with stage.server.engine.transaction(organization=stage.server.organization) as tx:
        made = (await curriculum.add_item(tx, cohort, title="Work", **item))["id"]
        if item["kind"] == "quiz":
            await quizzes.set_questions(tx, made, "Why?\n* a\n- b", actor="op")
    return f"{STUDENT}/enrollments/{enrollment}/items/{made}", made, student


async def answers(stage: Stage) -> Case:
    path, item, student = await coursework(stage, kind="quiz")
    question = await stage.db.fetchval("select id from learning.quiz_questions where item_id = $1", item)
    body = {"answers": {str(question): [0]}}
    return Case(f"{path}/answers", body, [{**body, "key": "12345678"}], student)


async def hand_in(stage: Stage) -> Case:
    path, _, student = await coursework(stage, kind="assignment", graded=True)
    return Case(f"{path}/submission", {"text": "work"}, [{"text": " work "}], student)


async def add_file(stage: Stage) -> Case:
    path, _, student = await coursework(stage, kind="assignment", graded=True)
    several = "a student may hand in two files with one name"
    return Case(f"{path}/files?name=a.txt", {"n": 1}, [], student, several=several, keyed=False)


async def remove_file(stage: Stage) -> Case:
    path, _, student = await coursework(stage, kind="assignment", graded=True)
    token = student["authorization"][7:]
    _, made = await stage.server.call("POST", f"{path}/files?name=a.txt", {"n": 1}, token=token)
    return Case(f"{path}/files/{made['id']}", None, [], student)


async def grade_on_the_desk(stage: Stage) -> Case:
    path, item, student = await coursework(stage, kind="assignment", graded=True)
    token = student["authorization"][7:]
    await stage.server.call("PUT", f"{path}/submission", {"text": "work"}, token=token)
    id = await stage.db.fetchval("select id from learning.submissions where item_id = $1", item)
    return on_the_desk(stage, "submissions/do/grade", {"grade": "80"}, ids=id, verdict="PASSED", grade="90")


async def questions_on_the_desk(stage: Stage) -> Case:
    _, item, _ = await coursework(stage, kind="quiz")
    given = {"questions": "Why not?\n* a\n- b"} | await loaded(stage, load_questions, item)
    return on_the_desk(stage, "items/do/set_questions", ids=item, **given)


async def write_on_the_desk(stage: Stage) -> Case:
    cohort = await stage.cohort(begun=True)
    return on_the_desk(stage, "cohorts/do/write", ids=cohort, author="Grace", message="Welcome")


async def moderate_on_the_desk(stage: Stage) -> Case:
    path, _ = await stage.message()
    return on_the_desk(stage, "chat/do/moderate", {"reason": "other"}, ids=path.rpartition("/")[2], reason="rude")


CASES: Cases[Stage] = {
    f"POST {STAFF}/enrollments/{{enrollment_id}}/certificate/reissue": reissue,
    f"POST {DESK}/students/do/correct_name": correct_name_on_the_desk,
    f"POST {DESK}/enrolments/do/revoke": revoke_on_the_desk,
    f"POST {DESK}/enrolments/do/refund_a_part": refund_a_part_on_the_desk,
    f"POST {DESK}/discounts/do/add_code": code_on_the_desk,
    f"POST {DESK}/discounts/do/change_code": change_code_on_the_desk,
    f"POST {DESK}/cohorts/do/reserve_seats": seats_on_the_desk,
    f"POST {DESK}/seats/do/send_seats_link": send_seats_on_the_desk,
    f"POST {DESK}/seats/do/end_seats": end_seats_on_the_desk,
    f"POST {DESK}/submissions/do/grade": grade_on_the_desk,
    f"POST {DESK}/items/do/set_questions": questions_on_the_desk,
    f"POST {DESK}/cohorts/do/write": write_on_the_desk,
    f"POST {DESK}/chat/do/moderate": moderate_on_the_desk,
    f"POST {PUBLIC}/seats/{{token}}": take_seat,
    f"POST {STUDENT}/enrollments/{{enrollment_id}}/items/{{item_id}}/answers": answers,
    f"PUT {STUDENT}/enrollments/{{enrollment_id}}/items/{{item_id}}/submission": hand_in,
    f"POST {STUDENT}/enrollments/{{enrollment_id}}/items/{{item_id}}/files": add_file,
    f"DELETE {STUDENT}/enrollments/{{enrollment_id}}/items/{{item_id}}/files/{{file_id}}": remove_file,
    f"POST {STAFF}/cohorts": new_cohort,
    f"POST {STAFF}/cohorts/{{cohort_id}}/status": status,
    f"POST {STAFF}/cohorts/{{cohort_id}}/capacity": capacity,
    f"POST {STAFF}/cohorts/{{cohort_id}}/sessions": session,
    f"POST {STAFF}/sessions/{{session_id}}/cancel": cancel_session,
    f"PUT {STAFF}/sessions/{{session_id}}": change_session,
    f"PUT {STAFF}/sessions/{{session_id}}/recording": recording,
    f"POST {STAFF}/cohorts/{{cohort_id}}/items": item,
    f"POST {STAFF}/cohorts/{{cohort_id}}/enrollments": enrol_by_hand,
    f"POST {STAFF}/waitlist/{{entry_id}}/priority": priority,
    f"POST {STAFF}/users": user,
    f"PATCH {STAFF}/users/{{user_id}}": change_user,
    f"POST {STAFF}/enrollments/{{enrollment_id}}/attendance": attendance,
    f"POST {STAFF}/enrollments/{{enrollment_id}}/move": move,
    f"POST {STAFF}/enrollments/{{enrollment_id}}/certificate/revoke": revoke,
    f"PUT {STAFF}/surveys/{{survey_id}}": survey,
    f"POST {STAFF}/enrollments/{{enrollment_id}}/refund": refund,
    f"POST {STAFF}/refunds/{{refund_id}}/retry": retry,
    f"POST {DESK}/cohorts/do/create": create_on_the_desk,
    f"POST {DESK}/cohorts/do/resize": resize_on_the_desk,
    f"POST {DESK}/cohorts/do/edit": edit_on_the_desk,
    f"POST {DESK}/cohorts/do/duplicate": duplicate_on_the_desk,
    f"POST {DESK}/cohorts/do/enrol": enrol_on_the_desk,
    f"POST {DESK}/cohorts/do/add_session": add_session_on_the_desk,
    f"POST {DESK}/cohorts/do/add_item": add_item_on_the_desk,
    f"POST {DESK}/sessions/do/change": change_session_on_the_desk,
    f"POST {DESK}/sessions/do/cancel": cancel_session_on_the_desk,
    f"POST {DESK}/sessions/do/set_recording": recording_on_the_desk,
    f"POST {DESK}/sessions/do/check_off": attendance_on_the_desk,
    f"POST {DESK}/items/do/edit_item": edit_item_on_the_desk,
    f"POST {DESK}/items/do/remove_item": remove_item_on_the_desk,
    f"POST {DESK}/cohorts/do/change_state": change_state_on_the_desk,
    f"POST {DESK}/enrolments/do/refund": refund_on_the_desk,
    f"POST {DESK}/enrolments/do/move": move_on_the_desk,
    f"POST {DESK}/waitlist/do/prioritise": prioritise_on_the_desk,
    f"POST {DESK}/waitlist/do/remove": remove_from_the_waitlist_on_the_desk,
    f"POST {DESK}/refunds/do/repeat": repeat_on_the_desk,
    f"POST {PUBLIC}/cohorts/{{cohort_id}}/checkout": checkout,
    f"POST {PUBLIC}/cohorts/{{cohort_id}}/checkout (free)": free_checkout,
    f"POST {PUBLIC}/cohorts/{{cohort_id}}/waitlist": join,
    f"POST {PUBLIC}/extensions/{{token}}/checkout": extension,
    f"POST {PUBLIC}/cohorts/{{cohort_id}}/views": view,
    f"POST {PUBLIC}/sign-in": sign_in,
    f"POST {PUBLIC}/session": open_session,
    f"DELETE {PUBLIC}/session": close_session,
    f"PATCH {STUDENT}/me": profile,
    f"PUT {STUDENT}/enrollments/{{enrollment_id}}/items/{{item_id}}": done,
    f"POST {STUDENT}/cohorts/{{cohort_id}}/chat": chat,
    f"POST {STUDENT}/cohorts/{{cohort_id}}/chat (without a key)": chat_without_key,
    f"PATCH {STUDENT}/cohorts/{{cohort_id}}/chat/{{message_id}}": edit,
    f"DELETE {STUDENT}/cohorts/{{cohort_id}}/chat/{{message_id}}": delete,
    f"POST {STUDENT}/cohorts/{{cohort_id}}/chat/{{message_id}}/reactions": react,
    f"POST {STUDENT}/cohorts/{{cohort_id}}/chat/read": read,
    f"POST {STUDENT}/cohorts/{{cohort_id}}/presence": presence,
}


def test_every_route_has_a_case() -> None:
    assert twins.routes_of(CASES) == twins.written_routes(learning)


@pytest.fixture
async def stage(database_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    stripe = StripeSimulator()
    await stripe.start()
    try:
        async with running(database_url, tmp_path, stripe=stripe) as server:
            yield Stage(server, stripe)
    finally:
        await stripe.stop()


@pytest.mark.timeout(180)
async def test_identical_and_nearly_identical_requests_at_once_leave_what_one_would(stage: Stage) -> None:
    await twins.expect_twins_to_leave_one(stage, CASES, checks.CHECKS)
