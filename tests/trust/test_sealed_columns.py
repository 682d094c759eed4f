"""Apps declare encrypted columns: the engine encrypts and decrypts them, and rotation, verify and doctor include them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr
from structlog.testing import capture_logs
from typer.testing import CliRunner

from onceward import Engine, Onceward, SealedColumn
from onceward.cli.commands import build
from onceward.db import Database
from onceward.doctor.secrets import check_secrets
from onceward.feature import Feature, Features
from onceward.live.access import Caller
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import perform
from onceward.trust import SecretBox, SecretError, Tampered, UnknownSecretKey
from onceward.trust.checks import check_secrets_can_be_opened
from onceward.trust.errors import BadSecretKey
from onceward.trust.sealed_columns import SealedColumns
from onceward.trust.secrets import KEY_FILE, key_id, rotate
from onceward.trust.settings import TrustSettings
from onceward.web.auth import install
from tests.docs.test_code_blocks import ROOT, blocks_of

OLD, NEW, OTHER = "o" * 40, "n" * 40, "x" * 40
TOKEN = SealedColumn("shop.partners", "id", "token")
TABLE = """
create schema shop;
create table shop.partners (id int primary key, token bytea);
grant usage on schema shop to onceward_app;
grant select, insert, update on shop.partners to onceward_app;
"""
app = Onceward("shop", sealed=[TOKEN])
"""The app that ONCEWARD_APP names in the tests of the command."""


@pytest.fixture
async def shop(db: Database) -> Database:
    await db.execute(TABLE)
    return db


def engine(db: Database, *keys: str) -> Engine:
    return Engine(db, app.registry, box=SecretBox(keys))


async def fill(db: Database, number: int, key: str = OLD) -> None:
    sealing = engine(db, key)
    for id in range(number):  # 0 is an id like any other
        sealed = sealing.seal(TOKEN, f"token {id}".encode(), row=id)
        await db.execute("insert into shop.partners values ($1, $2)", id, sealed)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def tokens(db: Database, *keys: str) -> list[bytes]:
    rows = await db.fetch("select id, token from shop.partners where token is not null order by id")
    return [engine(db, *keys).unseal(TOKEN, row["token"], row=row["id"]) for row in rows]


async def test_the_documented_app_stores_its_token_encrypted(shop: Database) -> None:
    page = ROOT / "docs" / "trust.md"
    [block] = [each for each in blocks_of(page, page.read_text(encoding="utf-8")) if each.defines_app()]
    names: dict[str, Any] = {"__name__": "documented"}
    exec(block.compiled(), names)
    documented, save, token_of = names["app"], names["save_token"], names["token_of"]
    assert isinstance(documented, Onceward)
    running = Engine(shop, documented.registry, box=SecretBox([NEW]))
    await shop.execute("insert into shop.partners (id) values (7)")
    await perform(running, save, partner=7, token="a token")
    assert b"a token" not in await shop.fetchval("select token from shop.partners")
    async with running.transaction() as tx:
        assert await token_of(tx, 7) == "a token"
    assert documented.features()[0].sealed == (TOKEN,)


async def test_a_value_opens_only_in_its_row_and_column(db: Database) -> None:
    name = SealedColumn("shop.partners", "id", "name")
    running = Engine(db, Onceward("x", sealed=[TOKEN, name]).registry, box=SecretBox([NEW]))
    sealed = running.seal(TOKEN, b"x", row=1)
    assert running.unseal(TOKEN, sealed, row=1) == b"x"
    for column, row in ((TOKEN, 2), (name, 1)):
        with pytest.raises(Tampered):
            running.unseal(column, sealed, row=row)


async def test_a_column_that_is_not_declared_and_a_row_of_none_are_refused(db: Database) -> None:
    with pytest.raises(ValueError, match=r"shop\.partners\.token is not declared"):
        Engine(db, Onceward("x").registry, box=SecretBox([NEW])).seal(TOKEN, b"x", row=1)
    with pytest.raises(ValueError, match="is None"):
        engine(db, NEW).seal(TOKEN, b"x", row=None)  # pyright: ignore[reportArgumentType]


async def test_the_columns_of_an_included_app_belong_to_the_app_that_includes_it(db: Database) -> None:
    whole = Onceward("whole")
    whole.include(app)
    running = Engine(db, whole.registry, box=SecretBox([NEW]))
    assert running.unseal(TOKEN, running.seal(TOKEN, b"x", row=1), row=1) == b"x"
    assert FEATURES.plus(whole.features()).sealed[-1] == TOKEN


async def test_the_rule_of_a_live_query_decrypts(db: Database) -> None:
    running = engine(db, NEW)
    caller = Caller(None, {}, db, running.sealed_columns)
    assert caller.unseal(TOKEN, running.seal(TOKEN, b"x", row="a"), row="a") == b"x"


@pytest.mark.parametrize(
    ("table", "row", "column"),
    [("partners", "id", "token"), ("shop.partners", "", "token"), ("shop.partners", "id", "a b"), ("a.b;", "c", "d")],
)
def test_a_declaration_with_a_bad_name_is_refused(table: str, row: str, column: str) -> None:
    with pytest.raises(ValueError, match="of a sealed column must"):
        SealedColumn(table, row, column)


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_an_engine_without_keys_names_the_setting(db: Database) -> None:
    with pytest.raises(BadSecretKey, match=r"no key for shop\.partners\.token.*ONCEWARD_SECRET_KEY"):
        Engine(db, app.registry).seal(TOKEN, b"x", row=1)


async def test_a_script_has_the_keys_of_the_settings(database_url: str, tmp_path: Path) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path).using(
        TrustSettings(secret_key=SecretStr(f"{NEW},{OLD}"))
    )
    async with app.engine(settings=settings) as script:
        assert key_id(script.seal(TOKEN, b"x", row=1)) == SecretBox([NEW]).current
    assert names_in(tmp_path) == []


async def test_without_the_setting_the_data_directory_has_the_key_and_only_encryption_creates_it(
    database_url: str, tmp_path: Path
) -> None:
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path)
    async with app.engine(settings=settings) as script:
        assert names_in(tmp_path) == []
        sealed = script.seal(TOKEN, b"x", row=1)
    assert names_in(tmp_path) == [KEY_FILE]
    async with app.engine(settings=settings) as another:
        assert another.unseal(TOKEN, sealed, row=1) == b"x"


async def test_a_wrong_key_gives_a_clear_error_and_changes_nothing(shop: Database) -> None:
    await fill(shop, 3)
    before = await shop.fetch("select * from shop.partners order by id")
    with pytest.raises(UnknownSecretKey, match=r"shop\.partners\.token of row 0 .* ONCEWARD_SECRET_KEY on every node"):
        await tokens(shop, OTHER)
    with pytest.raises(UnknownSecretKey):
        await rotate(shop, SecretBox([OTHER]), [TOKEN])
    assert await shop.fetch("select * from shop.partners order by id") == before
    assert await tokens(shop, OLD) == [b"token 0", b"token 1", b"token 2"]


# -- rotation, verify, doctor ----------------------------------------------------------------------------------------


async def test_rotation_encrypts_the_columns_of_an_app_again(shop: Database) -> None:
    await fill(shop, 7)
    await shop.execute("insert into shop.partners values (100, null)")
    columns = FEATURES.plus(app.features()).sealed
    assert await rotate(shop, SecretBox([NEW, OLD]), columns, batch=3) == 7
    assert await rotate(shop, SecretBox([NEW, OLD]), columns, batch=3) == 0
    assert await tokens(shop, NEW) == [f"token {id}".encode() for id in range(7)]


@pytest.mark.parametrize("type", ["uuid", "text", "bigint"])
async def test_rotation_takes_ids_of_each_type(db: Database, type: str) -> None:
    await db.execute(f"create schema shop; create table shop.partners (id {type} primary key, token bytea)")
    old, ids = engine(db, OLD), {"uuid": [uuid4(), uuid4()], "text": ["", "é'"], "bigint": [-1, 2**40]}[type]
    for id in ids:
        await db.execute("insert into shop.partners values ($1, $2)", id, old.seal(TOKEN, b"x", row=id))
    assert await rotate(db, SecretBox([NEW, OLD]), [TOKEN], batch=1) == 2
    assert await tokens(db, NEW) == [b"x", b"x"]


async def test_rows_that_share_an_id_keep_their_own_values(db: Database) -> None:
    await db.execute("create schema shop; create table shop.partners (id int, token bytea)")
    old = engine(db, OLD)
    for plain in (b"a", b"b", b"c"):
        await db.execute("insert into shop.partners values (1, $1)", old.seal(TOKEN, plain, row=1))
    assert await rotate(db, SecretBox([NEW, OLD]), [TOKEN], batch=1) == 3
    assert sorted(await tokens(db, NEW)) == [b"a", b"b", b"c"]


async def test_a_declared_column_that_does_not_exist_is_reported_and_stops_rotation(shop: Database) -> None:
    await fill(shop, 1)
    before = await shop.fetchval("select token from shop.partners")
    misspelt = SealedColumn("shop.partners", "id", "tokens")
    with pytest.raises(SecretError, match=r"shop\.partners\.tokens \(row id\) does not exist"):
        await rotate(shop, SecretBox([NEW, OLD]), [TOKEN, misspelt])
    assert await shop.fetchval("select token from shop.partners") == before
    async with shop.acquire() as conn:
        [problem] = await check_secrets_can_be_opened(SecretBox([OLD]), [TOKEN, misspelt]).run(conn)
    assert "shop.partners.tokens" in problem


async def test_verify_and_doctor_find_values_without_their_key(shop: Database, tmp_path: Path) -> None:
    await fill(shop, 2)
    columns = FEATURES.plus(app.features()).sealed

    async def found(*keys: str) -> tuple[int, str, str]:
        settings = Settings(data_dir=tmp_path).using(
            TrustSettings(secret_key=SecretStr(",".join(keys)) if keys else None)
        )
        async with shop.acquire() as conn:
            problems = await check_secrets_can_be_opened(SecretBox(keys or [OTHER]), columns).run(conn)
            finding = await check_secrets(conn, settings, columns)
        return len(problems), finding.status, finding.finding

    assert await found(OLD) == (0, "ok", "the keys fit all 2 encrypted values")
    assert await found(NEW, OLD) == (0, "ok", "the keys fit all 2 encrypted values; 2 use an older key")
    lacking = "values are encrypted with a key that this machine lacks: 2 in shop.partners.token"
    assert await found(OTHER) == (2, "fail", lacking)
    assert await found() == (2, "fail", lacking)
    async with shop.acquire() as conn:
        weak = await check_secrets(
            conn, Settings(data_dir=tmp_path).using(TrustSettings(secret_key=SecretStr("short"))), columns
        )
    assert (weak.status, weak.remedy) == ("fail", "correct ONCEWARD_SECRET_KEY")
    assert names_in(tmp_path) == []  # doctor creates no key


async def test_the_command_rotates_the_app_and_fails_if_it_does_not_know_an_app_of_the_database(
    shop: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(shop, 2)
    await shop.execute("insert into onceward.migrations (owner, number, name, checksum) values ('shop', 1, 'a', 'b')")
    for name, value in {
        "DATABASE_URL": database_url,
        "DATA_DIR": str(tmp_path),
        "SECRET_KEY": f"{NEW},{OLD}",
    }.items():
        monkeypatch.setenv(f"ONCEWARD_{name}", value)

    def run(features: Features) -> tuple[int, str]:
        ended = CliRunner().invoke(build(features), ["secrets", "rotate"])
        return ended.exit_code, f"{ended.output} {ended.exception}"

    code, text = await asyncio.to_thread(run, FEATURES)
    assert code != 0
    assert "also has tables of shop" in text
    assert "ONCEWARD_APP" in text
    assert await tokens(shop, OLD) == [b"token 0", b"token 1"]
    known = Feature(name="shop", migrations=tmp_path, sealed=(TOKEN,))
    code, text = await asyncio.to_thread(run, FEATURES.plus([known]))
    assert code == 0, text
    assert await tokens(shop, NEW) == [b"token 0", b"token 1"]


def test_a_caller_is_not_blamed_for_a_missing_key_and_the_log_says_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = FastAPI()
    install(api)

    @api.get("/orders")
    async def orders() -> None:
        SealedColumns(frozenset({TOKEN})).unseal(TOKEN, b"", row=1)

    with capture_logs() as lines:
        answer = TestClient(api, raise_server_exceptions=False).get("/orders")
    assert answer.status_code == 500
    assert "log" in answer.json()["detail"]
    assert "ONCEWARD_SECRET_KEY" not in answer.text
    [line] = [each for each in lines if each["event"] == "secret.unreadable"]
    assert "ONCEWARD_SECRET_KEY" in line["reason"]
