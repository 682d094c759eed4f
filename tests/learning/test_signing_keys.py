"""The keys that sign links and badges: encrypted at rest, one of each for an organization, rotated without new links."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from uuid import UUID

import pytest

from onceward import Engine
from onceward.live.access import Caller
from onceward.runtime import FEATURES
from onceward.testing.webhook_inbox import BOX
from onceward.testing.webhook_inbox import KEY as OLD
from onceward.trust import SecretBox, UnknownSecretKey, verify
from onceward.trust.checks import check_secrets_can_be_opened
from onceward.trust.secrets import rotate
from onceward_apps.learning import open_badges
from onceward_apps.learning.app import BADGE_KEY, SIGNING_KEY, app
from onceward_apps.learning.checks import CHECKS
from onceward_apps.learning.link_tokens import enrollment_token, read_enrollment_token
from onceward_apps.learning.store import keys, people
from onceward_apps.learning.student_access import make_token, student_of
from tests.dumps import dump
from tests.learning.school import School

NEW = "a newer key of the tests, which is long enough"
ROWS = (
    "select s.key, b.private_key from learning.signing_keys s"
    " join learning.badge_keys b on b.organization_id = s.organization_id"
)


def with_keys(school: School, *text: str) -> Engine:
    return Engine(school.db, app.registry, event_types=app.event_types, box=SecretBox(text))


async def signing_key(engine: Engine, organization: UUID) -> bytes:
    async with engine.transaction(organization=organization) as tx:
        return await keys.signing_key(tx)


async def both(engine: Engine, school: School) -> tuple[bytes, bytes]:
    return await signing_key(engine, school.organization), await open_badges.key_of(engine, school.organization)


async def test_no_dump_of_the_database_contains_the_keys(school: School) -> None:
    found = await both(school.engine, school)
    row = await school.db.fetchrow(ROWS)
    assert row is not None
    text = await dump(school.db)
    for sealed, column, plain in zip(row.values(), (SIGNING_KEY, BADGE_KEY), found, strict=True):
        assert BOX.open(sealed, table=column.table, row=school.organization, column=column.column) == plain
        assert sealed.hex() in text  # the dump shows what it finds
        for form in (plain.hex(), b64encode(plain).decode().rstrip("="), plain[-32:].hex()):
            assert form not in text


async def test_rotated_keys_sign_the_same_links_and_badges(school: School) -> None:
    before = await both(school.engine, school)
    student = await school.student()
    async with school.transaction() as tx:
        session = await people.open_session(tx, b"h" * 32, student, 1)
        link = await enrollment_token(tx, "survey", student)
    columns = FEATURES.plus(app.features()).sealed
    assert await rotate(school.db, SecretBox([NEW, OLD]), columns) >= 2
    newest = with_keys(school, NEW)
    assert await both(newest, school) == before
    async with newest.transaction(organization=school.organization) as tx:
        assert await read_enrollment_token(tx, "survey", link) == student
    access = make_token(before[0], student, session["id"], session["expires_at"])
    caller = Caller(None, {"access": access}, school.db, newest.sealed_columns)
    assert await student_of(caller) == (student, school.organization)
    async with school.db.acquire() as conn:
        assert await check_secrets_can_be_opened(SecretBox([NEW]), app.features()[0].sealed).run(conn) == []
    assert all(result.ok for result in await verify(school.db, CHECKS))


async def test_a_process_with_a_wrong_key_creates_no_second_key(school: School) -> None:
    before = await both(school.engine, school)
    wrong = with_keys(school, "another key of the tests, also long enough")
    with pytest.raises(UnknownSecretKey, match=r"learning\.signing_keys\.key .*ONCEWARD_SECRET_KEY"):
        await signing_key(wrong, school.organization)
    with pytest.raises(UnknownSecretKey, match=r"learning\.badge_keys\.private_key .*ONCEWARD_SECRET_KEY"):
        await open_badges.key_of(wrong, school.organization)
    assert await both(school.engine, school) == before


async def test_processes_that_create_the_first_keys_at_the_same_moment_end_with_one(school: School) -> None:
    found = await asyncio.gather(*(both(with_keys(school, OLD), school) for _ in range(4)))
    assert len(set(found)) == 1
    assert await school.db.fetchval("select count(*) from learning.signing_keys") == 1
    assert await school.db.fetchval("select count(*) from learning.badge_keys") == 1
