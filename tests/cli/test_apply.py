"""`onceward apply`: a plan, an idempotent run, drift, references to secrets, pruning, and two runs at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from onceward.cli import apply as command
from onceward.cli.exits import CommandFailed
from onceward.configuration import ConfigurationRefused
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.settings import load_settings

FILE: dict[str, Any] = {
    "organizations": {"acme": {"weight": 2, "members": {"Ann@acme.example": "owner", "bob@acme.example": "viewer"}}},
    "sources": {
        "shop": {"provider": "generic", "organization": "acme", "secrets": [{"env": "SHOP_SECRET"}],
                 "options": {"header": "x-signature"}, "mode": "forward"},
    },
    "event_types": {"order.shipped": {"sample": {"order": 7}}},
    "endpoints": {
        "erp": {"organization": "acme", "url": "http://127.0.0.1:65001/erp", "source": "shop", "filter": "a > `1`",
                "headers": {"X-Key": {"file": "key"}, "X-Plain": "yes"}, "secret": {"env": "HOOK_SECRET"}},
        "all": {"organization": "acme", "url": "http://127.0.0.1:65001/all", "events": ["order.shipped"]},
    },
    "queues": {"reports": {"paused": True}},
}  # fmt: skip
Apply = Callable[..., Awaitable[command.Outcome]]


@pytest.fixture
def apply(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Apply:
    settings = load_settings(
        FEATURES.settings,
        database_url=SecretStr(db.url),
        secret_key=SecretStr("k" * 40),
        allow_loopback_endpoints=True,
    )

    @asynccontextmanager
    async def opened() -> AsyncIterator[Database]:
        yield db

    monkeypatch.setattr(command, "opened_database", opened)
    monkeypatch.setattr(command, "settings_here", lambda: settings)
    monkeypatch.setattr(command, "features_here", lambda: FEATURES)
    monkeypatch.setenv("SHOP_SECRET", "the first secret of the shop")
    monkeypatch.setenv("HOOK_SECRET", "a secret of the endpoint that is long enough")
    (tmp_path / "key").write_text("key-1\n")
    file = tmp_path / "onceward.json"

    async def run(content: dict[str, Any], *, plan: bool = False, prune: bool = False) -> command.Outcome:
        file.write_text(json.dumps(content))
        return await command.apply_content(command.read_file(file), tmp_path, plan=plan, prune=prune)

    return run


def actions(outcome: command.Outcome) -> list[str]:
    return [
        f"{change.action} {section}.{change.name} {','.join(change.fields)}".strip()
        for section, change in outcome.changes
    ]


def changed(**sections: Any) -> dict[str, Any]:
    """The file with other fields of some entries."""
    copy = json.loads(json.dumps(FILE))
    for section, entries in sections.items():
        for name, fields in entries.items():
            copy[section][name] |= fields
    return copy


async def test_a_plan_changes_nothing_and_a_second_run_has_nothing_to_change(db: Database, apply: Apply) -> None:
    planned = await apply(FILE, plan=True)
    assert [each.split()[:2] for each in actions(planned)] == [
        ["create", "organizations.acme"],
        ["change", "queues.reports"],
        ["create", "sources.shop"],
        ["create", "event_types.order.shipped"],
        ["create", "endpoints.erp"],
        ["create", "endpoints.all"],
    ]
    assert await db.fetchval("select count(*) from onceward.organizations where slug = 'acme'") == 0
    assert "secret of the" not in str([*planned.lines(plan=True)]) + json.dumps(planned.as_json(), default=str)
    done = await apply(FILE)
    assert actions(done) == actions(planned)
    assert actions(await apply(FILE)) == []
    assert actions(await apply(FILE, plan=True)) == []
    roles = await db.fetch("select role from onceward.memberships order by 1")
    assert [row["role"] for row in roles] == ["owner", "viewer"]


async def test_drift_and_changes_are_shown_and_taken_back(
    db: Database, apply: Apply, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await apply(FILE)
    await db.execute("update onceward.queues set paused_at = null where name = 'reports'")
    await db.execute("update onceward.endpoints set rate_per_s = 3 where url like '%all'")
    (tmp_path / "key").write_text("key-2")
    monkeypatch.setenv("SHOP_SECRET", "the second secret of the shop")
    monkeypatch.setenv("HOOK_SECRET", "another secret of the endpoint, long enough")
    new = changed(organizations={"acme": {"weight": 3, "members": {"ann@acme.example": "operator"}}})
    assert actions(await apply(new)) == [
        "change organizations.acme weight,members",
        "change queues.reports paused",
        "change sources.shop secrets",
        "change endpoints.erp headers,secret",
        "change endpoints.all rate_per_s",
    ]
    assert actions(await apply(new)) == []
    assert await db.fetchval("select count(*) from onceward.endpoint_secrets") == 3, "the old secret still signs"
    assert await db.fetchval("select count(*) from onceward.memberships") == 1


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown section": ({"source": {}}, "source: there is no such section; did you mean sources?"),
    "unknown field": (changed(endpoints={"erp": {"rate": 1}}), "endpoints.erp.rate: Extra inputs"),
    "a secret in the file": (changed(endpoints={"erp": {"secret": "abc"}}), "endpoints.erp.secret: must be a reference"),
    "a secret that is not set": (changed(sources={"shop": {"secrets": [{"env": "NOBODY"}]}}), "sources.shop.secrets.0: the environment variable NOBODY is not set"),
    "a wrong filter": (changed(endpoints={"erp": {"filter": "a["}}), "endpoints.erp.filter: is not a JMESPath"),
    "no organization": (changed(endpoints={"erp": {"organization": "nobody"}}), "endpoints.erp.organization: there is no organization 'nobody'"),
    "unknown schedule": ({**FILE, "schedules": {"nightly": {"paused": True}}}, "schedules.nightly: there is no such schedule"),
}  # fmt: skip


async def test_a_mistake_is_found_before_anything_is_changed(db: Database, apply: Apply) -> None:
    for name, (content, message) in WRONG.items():
        with pytest.raises(ConfigurationRefused) as refused:
            await apply(content)
        assert message in str(refused.value), name
    assert await db.fetchval("select count(*) from onceward.organizations where slug = 'acme'") == 0


async def test_a_secret_that_has_gone_from_the_environment_stops_a_run_that_worked_before(
    db: Database, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apply(FILE)
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(ConfigurationRefused, match="HOOK_SECRET is not set"):
        await apply(changed(organizations={"acme": {"weight": 9}}))
    assert await db.fetchval("select weight from onceward.organizations where slug = 'acme'") == 2
    assert await db.fetchval("select count(*) from onceward.endpoint_secrets") == 2, "the stored secret stays"


async def test_only_what_apply_created_is_pruned(db: Database, apply: Apply) -> None:
    await apply(FILE)
    async with db.transaction(role="engine") as tx:
        await tx.execute(
            "insert into onceward.endpoints (organization_id, url, events)"
            " select organization_id, 'https://by.hand.example/', '{*}' from onceward.organizations where slug = 'acme'"
        )
    smaller = json.loads(json.dumps(FILE))
    del smaller["endpoints"]["all"]
    kept = await apply(smaller)
    assert (actions(kept), kept.unlisted) == ([], [("endpoints", "all")])
    assert actions(await apply(smaller, prune=True)) == ["delete endpoints.all"]
    assert actions(await apply(smaller, prune=True)) == []
    rows = await db.fetch("select url from onceward.endpoints where deleted_at is null order by 1")
    assert [row["url"] for row in rows] == ["http://127.0.0.1:65001/erp", "https://by.hand.example/"]
    # It is in the file again: a new endpoint.
    assert [each.split()[1] for each in actions(await apply(FILE))] == ["endpoints.all"]


async def test_two_runs_at_once_create_each_thing_once(db: Database, apply: Apply) -> None:
    both = await asyncio.gather(apply(FILE), apply(FILE))
    assert sorted(len(each.changes) for each in both) == [0, 6]
    assert await db.fetchval("select count(*) from onceward.endpoints") == 2


async def test_a_field_that_a_source_keeps_for_its_life_is_refused(apply: Apply) -> None:
    await apply(FILE)
    with pytest.raises(ConfigurationRefused, match=r"sources\.shop\.mode: it cannot be changed"):
        await apply(changed(sources={"shop": {"mode": "ack"}}))


def test_yaml_toml_and_json_are_read_and_mistakes_named(tmp_path: Path) -> None:
    for name, text in (
        ("a.yaml", "queues: {a: {paused: true}}"),
        ("a.toml", "[queues.a]\npaused = true"),
        ("a.json", '{"queues": {"a": {"paused": true}}}'),
    ):
        (tmp_path / name).write_text(text)
        assert command.read_file(tmp_path / name) == {"queues": {"a": {"paused": True}}}
    for name, text in (
        ("b.yaml", "a: [\n"),
        ("b.json", "{"),
        ("b.yml", "- a"),
        ("c.yaml", "a: !!python/object:os.system {}"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(CommandFailed):
            command.read_file(tmp_path / name)
