"""The ledger as handlers, operators and `onceward verify` meet it."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from typer.testing import CliRunner

from onceward import capacity, ledger
from onceward.cli.commands import build
from onceward.db import Cause, Database
from onceward.engine import Engine
from onceward.ledger import Entry, InvalidEntry, KeyConflict, open_account, post
from onceward.runtime import FEATURES
from onceward.trust.invariants import verify
from onceward.tx import Tx
from onceward.work import AppRegistry
from tests.ledger.conftest import sale


async def test_a_handler_posts_without_a_key_once_for_what_caused_it(db: Database, books: UUID) -> None:
    engine = Engine(db, AppRegistry())
    async with db.acquire() as conn:
        for fresh in (True, False):
            tx = Tx(conn, engine, organization=books, cause=Cause("event", 5))
            await tx.open()
            journal = await tx.post(sale())
            assert (journal.key, journal.fresh) == ("event:5:post", fresh)
            await tx.commit()
        tx = Tx(conn, engine, organization=books, cause=Cause("event", 5))
        await tx.open()
        with pytest.raises(KeyConflict):
            await tx.post(sale(7))
        await tx.rollback()
        tx = Tx(conn, engine, organization=books)
        await tx.open()
        with pytest.raises(InvalidEntry, match="give the journal a key"):
            await tx.post(sale())
        await tx.rollback()


async def test_verify_finds_the_checks_of_both_and_they_hold(db: Database, books: UUID) -> None:
    found = [check for checks in FEATURES.load("checks") for check in checks]
    assert {*capacity.CHECKS, *ledger.CHECKS} <= set(found)
    results = await verify(db, found)
    assert [one for one in results if not one.ok] == []


@pytest.fixture
async def shop(db: Database) -> str:
    organization = await db.fetchval(
        "insert into onceward.organizations (slug, name) values ('shop', 'Shop') returning organization_id"
    )
    async with db.transaction(organization=organization) as tx:
        await open_account(tx, "cash", currency="EUR", kind="asset")
        await open_account(tx, "revenue", currency="EUR", kind="revenue")
        await post(tx, [Entry("cash", "revenue", 1234, "EUR")], key="sale:1", memo="order 1")
    return "shop"


def _onceward(url: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", url)
    result = CliRunner().invoke(build(FEATURES), ["ledger", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 1, str(result.exception)
    return result.exit_code, result.stdout


def test_the_command_line_checks_and_shows_the_books(
    database_url: str, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = _onceward(database_url, monkeypatch, "check")
    assert (code, "fail" in said, "ledger.debits_equal_credits" in said) == (0, False, True)
    code, said = _onceward(database_url, monkeypatch, "balance", "-o", shop)
    assert code == 0
    assert "EUR: debits 1234, credits 1234, balanced" in said
    code, said = _onceward(database_url, monkeypatch, "balance", "cash", "-o", shop, "--json")
    assert [(row["code"], row["balance"]) for row in json.loads(said)] == [("cash", 1234)]
    code, said = _onceward(database_url, monkeypatch, "statement", "cash", "-o", shop, "-c", "EUR", "--json")
    assert [(row["key"], row["amount"], row["balance"]) for row in json.loads(said)] == [("sale:1", 1234, 1234)]
    for bad in (
        ("balance", "gone", "-o", shop),
        ("statement", "gone", "-o", shop, "-c", "EUR"),
        ("balance", "-o", "x"),
    ):
        assert _onceward(database_url, monkeypatch, *bad)[0] == 1
