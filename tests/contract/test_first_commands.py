"""The first commands of the page about workers in other languages, and how long an event id is remembered."""

from __future__ import annotations

import asyncio
import re
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from typer.testing import CliRunner

from onceward import Onceward
from onceward.cli.commands import build
from onceward.inbox.settings import InboxSettings
from onceward.runtime import FEATURES
from tests.contract.test_webhook_contract import INSERT
from tests.inbox.conftest import Office
from tests.inbox.test_upkeep import upkeep

PAGE = Path(__file__).parents[2] / "docs" / "webhook-worker.md"


async def on_database(url: str, statement: str) -> Any:
    conn = await asyncpg.connect(url)
    try:
        return await conn.fetchval(statement)
    finally:
        await conn.close()


@pytest.mark.acceptance("001-H command")
def test_the_first_commands_of_the_page_need_nothing_more(database_url: str, tmp_path: Path) -> None:
    asyncio.run(on_database(database_url, "insert into onceward.organizations (slug, name) values ('acme', 'Acme')"))
    [block] = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:1]
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    env = {"ONCEWARD_DATABASE_URL": database_url, "ONCEWARD_DATA_DIR": str(tmp_path)}
    commands = [words[1:] for words in lines if words[0] == "onceward"]
    assert [words[:2] for words in commands] == [["sources", "add"], ["sql-logins", "add"]]
    try:
        for words in commands:
            # Without a terminal nobody can be asked for the secret.
            piped = ["--secret", "-"] if words[0] == "sources" else []
            secret = "a-secret-of-the-lab-32-bytes\n"
            done = CliRunner().invoke(build(FEATURES), [*words, *piped], env=env, input=secret)
            assert done.exit_code == 0, (words, done.output, done.exception)
        mode = "select mode from onceward.sources where name = 'lab'"
        assert asyncio.run(on_database(database_url, mode)) == "external"
    finally:
        CliRunner().invoke(build(FEATURES), ["sql-logins", "rm", "acme_lab"], env=env)


@pytest.mark.acceptance("001-H ids")
async def test_the_id_of_an_event_is_kept_for_ever_unless_a_setting_ends_it(office: Any) -> None:
    here: Office = await office(Onceward("contract"))
    source = await here.source("lab", provider="stripe", mode="external")
    assert await here.db.fetchval(INSERT, str(source), "evt-1", {"patient": "Ada"})
    claimed = await here.db.fetchrow("select * from webhook.claim_next_event()")
    assert claimed is not None
    await here.db.execute("select webhook.mark_event_result($1, 'success', null, $2)", claimed["id"], claimed["lease"])
    await here.db.execute("update onceward.webhook_events set received_at = received_at - interval '5 years'")
    assert InboxSettings().keep_keys is None
    await upkeep(here, keep=timedelta(days=30), keep_keys=InboxSettings().keep_keys).prune()
    assert await here.db.fetchval("select payload from onceward.webhook_events") is None
    assert await here.db.fetchval(INSERT, str(source), "evt-1", {"patient": "Ada"}) is None
    assert await here.db.fetchrow("select * from webhook.claim_next_event()") is None
    await upkeep(here, keep=timedelta(days=30), keep_keys=timedelta(days=400)).prune()
    assert await here.db.fetchval(INSERT, str(source), "evt-1", {"patient": "Ada"})
