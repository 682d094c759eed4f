"""Keys, sessions and the limit on guessing."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from onceward.db import Database
from onceward.trust import NotAllowed, NotAuthenticated, NotFound, TooManyFailures, TrustError
from onceward.trust.failures import FailureLimit, fingerprint, forget_old
from onceward.trust.identity import Identity
from onceward.trust.keys import NewKey, authenticate_key, create_key, list_keys, revoke_key
from onceward.trust.organizations import add_user, remove_member, set_disabled, set_member
from onceward.trust.sessions import (
    FIRST_ADMIN,
    admin_link,
    authenticate_session,
    close_session,
    create_link,
    csrf_matches,
    csrf_token,
    link_for,
    redeem_link,
)
from tests.trust.conftest import Two

# -- keys --------------------------------------------------------------------------------------------------------


async def make_key(db: Database, two: Two, *, expires_at: datetime | None = None) -> NewKey:
    async with db.transaction(role="engine") as tx:
        return await create_key(
            tx, name="ci", organization=two.a, scopes=["operator"], expires_at=expires_at, actor="test"
        )


async def who(db: Database, text: str) -> Identity:
    async with db.acquire() as conn:
        return await authenticate_key(conn, text, client="203.0.113.7")


async def test_a_key_is_its_organization_and_scopes(db: Database, two: Two) -> None:
    made = await make_key(db, two)
    identity = await who(db, made.text)
    assert (identity.kind, identity.organization, identity.label) == ("key", two.a, "ci")
    assert identity.may("viewer")
    assert identity.may("operator")
    assert not identity.may("owner")
    [listed] = await list_keys_of(db)
    assert listed.last_used_at is not None


async def list_keys_of(db: Database):
    async with db.acquire() as conn:
        return await list_keys(conn)


async def test_the_key_itself_is_kept_nowhere(db: Database, two: Two) -> None:
    made = await make_key(db, two)
    secret = made.text.removeprefix(made.key.prefix)
    for table in ("api_keys", "audit_log"):
        assert not await db.fetchval(f"select bool_or(t::text like '%' || $1 || '%') from onceward.{table} t", secret)


async def test_a_key_works_until_it_expires_or_is_revoked(db: Database, two: Two) -> None:
    short = await make_key(db, two, expires_at=datetime.now(UTC) + timedelta(hours=1))
    await who(db, short.text)
    await db.execute("update onceward.api_keys set expires_at = onceward.now()")
    with pytest.raises(NotAuthenticated, match="expired"):
        await who(db, short.text)
    gone = await make_key(db, two)
    async with db.transaction(role="engine") as tx:
        await revoke_key(tx, gone.key.prefix, organization=two.a, actor="test")
    with pytest.raises(NotAuthenticated, match="revoked"):
        await who(db, gone.text)


async def test_an_organization_cannot_revoke_anothers_key(db: Database, two: Two) -> None:
    made = await make_key(db, two)
    with pytest.raises(NotFound):
        async with db.transaction(role="engine") as tx:
            await revoke_key(tx, made.key.key_id, organization=two.b, actor="test")
    await who(db, made.text)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-1] + ("A" if text[-1] != "A" else "B"),
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.upper(),
        lambda text: text + "\n",
        lambda text: "ow_" + "a" * 10 + "_" + "b" * 43,
        lambda _: "",
        lambda _: "ow_",
        lambda _: "ow_" + "x" * 1_000_000,
        lambda _: "\x00" * 57,
        lambda _: "ow_' or 1=1 --",
        lambda text: text.replace("_", "＿"),
    ],
)
async def test_no_other_text_is_a_key(db: Database, two: Two, spoil) -> None:
    made = await make_key(db, two)
    with pytest.raises(NotAuthenticated):
        await who(db, spoil(made.text))


@pytest.mark.parametrize(
    ("scopes", "platform"), [([], False), (["root"], False), (["admin"], False), (["viewer"], True), (["user"], False)]
)
async def test_scopes_that_make_no_sense_are_refused(db: Database, two: Two, scopes: list[str], platform: bool) -> None:
    with pytest.raises(TrustError, match="scope"):
        async with db.transaction(role="engine") as tx:
            await create_key(tx, name="x", organization=None if platform else two.a, scopes=scopes, actor="test")


# -- sessions ----------------------------------------------------------------------------------------------------


async def test_the_first_start_makes_one_administrator_and_a_link_that_works_once(db: Database) -> None:
    old, new = await admin_link(db, after_first_login=False), await admin_link(db, after_first_login=False)
    assert old is not None
    assert new is not None
    assert new.email == FIRST_ADMIN
    token = new.token
    async with db.transaction(role="engine") as tx:
        with pytest.raises(NotAuthenticated):
            await redeem_link(tx, old.token)
        session = await redeem_link(tx, token)
    async with db.acquire() as conn:
        identity = await authenticate_session(conn, session.token)
    assert identity.may("admin")
    assert identity.organization is None
    with pytest.raises(NotAuthenticated):
        async with db.transaction(role="engine") as tx:
            await redeem_link(tx, token)
    assert await admin_link(db, after_first_login=False) is None
    assert await admin_link(db, after_first_login=True) is None, "an administrator is logged in"
    assert await db.fetchval("select count(*) from onceward.users") == 1


async def test_after_the_session_has_ended_a_start_offers_a_new_link_for_the_same_account(db: Database) -> None:
    first = await admin_link(db, after_first_login=True)
    assert first is not None
    async with db.transaction(role="engine") as tx:
        await redeem_link(tx, first.token)
    await db.execute("update onceward.sessions set expires_at = onceward.now()")
    again = await admin_link(db, after_first_login=True)
    assert again is not None
    assert again.email == first.email
    async with db.transaction(role="engine") as tx:
        await redeem_link(tx, again.token)


async def test_a_disabled_first_administrator_gets_no_link_but_the_next_one_does(db: Database) -> None:
    assert await admin_link(db, after_first_login=True) is not None
    async with db.transaction(role="engine") as tx:
        await set_disabled(tx, FIRST_ADMIN, disabled=True, actor="test")
        await add_user(tx, "ops@example.org", admin=True, actor="test")
    link = await admin_link(db, after_first_login=True)
    assert link is not None
    assert link.email == "ops@example.org"


async def test_two_nodes_starting_first_make_one_administrator(db: Database) -> None:
    links = await asyncio.gather(*(admin_link(db, after_first_login=False) for _ in range(4)))
    assert all(links)
    assert await db.fetchval("select count(*) from onceward.users") == 1
    assert await db.fetchval("select count(*) from onceward.login_links") == 1


async def test_a_link_used_by_two_at_once_opens_one_session(db: Database) -> None:
    link = await admin_link(db, after_first_login=False)
    assert link is not None
    token = link.token

    async def redeem() -> bool:
        try:
            async with db.transaction(role="engine") as tx:
                await redeem_link(tx, token)
        except NotAuthenticated:
            return False
        return True

    assert sorted(await asyncio.gather(*(redeem() for _ in range(4)))) == [False, False, False, True]


async def open_session(db: Database, email: str) -> str:
    async with db.transaction(role="engine") as tx:
        token = await link_for(tx, email, actor="test")
        return (await redeem_link(tx, token)).token


async def test_a_member_acts_for_their_organization_in_their_role(db: Database, two: Two) -> None:
    async with db.transaction(role="engine") as tx:
        user_id = await set_member(tx, two.a, "Ann@Example.org", "operator", actor="test")
    session = await open_session(db, "ann@example.org")
    async with db.acquire() as conn:
        identity = await authenticate_session(conn, session)
        assert (identity.organization, identity.scopes, identity.sub) == (two.a, {"operator"}, str(user_id))
        with pytest.raises(NotAllowed):
            await authenticate_session(conn, session, organization=two.b)
    async with db.transaction(role="engine") as tx:
        await set_member(tx, two.b, "ann@example.org", "viewer", actor="test")
    async with db.acquire() as conn:
        assert (await authenticate_session(conn, session)).scopes == {"user"}
        assert (await authenticate_session(conn, session, organization=two.b)).scopes == {"viewer"}
    async with db.transaction(role="engine") as tx:
        await remove_member(tx, two.b, user_id, actor="test")
    async with db.acquire() as conn:
        with pytest.raises(NotAllowed):
            await authenticate_session(conn, session, organization=two.b)


@pytest.mark.parametrize(
    "end",
    [
        "update onceward.sessions set expires_at = onceward.now()",
        "update onceward.users set disabled_at = onceward.now()",
        "delete from onceward.users",
    ],
)
async def test_a_session_ends(db: Database, end: str) -> None:
    async with db.transaction(role="engine") as tx:
        await add_user(tx, "bob@example.org", admin=True, actor="test")
    session = await open_session(db, "bob@example.org")
    await db.execute(end)
    async with db.acquire() as conn:
        with pytest.raises(NotAuthenticated):
            await authenticate_session(conn, session)


async def test_logging_out_ends_the_session(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        await add_user(tx, "bob@example.org", admin=True, actor="test")
    session = await open_session(db, "bob@example.org")
    async with db.transaction(role="engine") as tx:
        await close_session(tx, session)
    async with db.acquire() as conn:
        with pytest.raises(NotAuthenticated):
            await authenticate_session(conn, session)


async def test_an_expired_link_opens_nothing(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        user_id = await add_user(tx, "bob@example.org", actor="test")
        token = await create_link(tx, user_id, hours=0, actor="test")
        with pytest.raises(NotAuthenticated):
            await redeem_link(tx, token)


def test_a_csrf_token_belongs_to_one_session() -> None:
    one = Identity("session", None, frozenset(), csrf=csrf_token("a" * 43))
    assert csrf_matches(one, [None, csrf_token("a" * 43)])
    assert not csrf_matches(one, [csrf_token("b" * 43), "", None, "é"])
    assert not csrf_matches(Identity("key", None, frozenset()), ["", None])


# -- guessing ----------------------------------------------------------------------------------------------------


async def test_too_many_failures_from_one_place_are_stopped_on_every_node(db: Database) -> None:
    limit = FailureLimit(failures=3, window_s=60)
    async with db.acquire() as one, db.acquire() as other:
        for conn in (one, other, one):
            await limit.count(conn, "192.0.2.1")
        with pytest.raises(TooManyFailures) as stopped:
            await limit.count(other, "192.0.2.1")
        assert 1 <= stopped.value.retry_after_s <= 60
        await limit.count(other, "192.0.2.2")
        await one.execute("update onceward.auth_failures set since = since - interval '61 s'")
        await limit.count(one, "192.0.2.1")
        await one.execute("update onceward.auth_failures set since = since - interval '2 h'")
        assert await forget_old(one) == 2


def test_an_ipv6_host_cannot_escape_by_changing_its_address() -> None:
    assert fingerprint("2001:db8::1") == fingerprint("2001:db8::ffff:1")
    assert fingerprint("2001:db8::1") != fingerprint("2001:db8:0:1::1")
    assert fingerprint("::ffff:192.0.2.1") == fingerprint("192.0.2.1")
    assert len(fingerprint("unix")) == 32
