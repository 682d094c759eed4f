"""The commands of trust, run as an operator runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from onceward.cli.commands import build
from onceward.cli.exits import code_for
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.settings import load_settings
from onceward.trust import Sealer
from onceward.trust.errors import BadSecret
from onceward.trust.secrets import OrganizationSecrets, secret_box

Run = Callable[..., Result]


@pytest.fixture
def onceward(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))

    def run(*arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(build(FEATURES), list(arguments), input=input)

    return run


def with_database(url: str, work: Callable[[Database], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        db = await Database.open(url)
        try:
            return await work(db)
        finally:
            await db.close()

    return asyncio.run(main())


def test_the_weight_of_an_organization_is_set_listed_and_audited(onceward: Run) -> None:
    onceward("organizations", "add", "acme")
    onceward("organizations", "add", "other")
    assert onceward("organizations", "set", "acme", "--weight", "3").stdout.strip() == "acme has the weight 3"
    for wrong in (("acme", "--weight", "0"), ("acme", "--weight", "101"), ("acme",), ("nobody", "--weight", "2")):
        assert onceward("organizations", "set", *wrong).exit_code != 0
    listed = json.loads(onceward("organizations", "ls", "--json").stdout)
    assert {each["slug"]: each["weight"] for each in listed} == {"acme": 3, "other": 1}
    entry = json.loads(onceward("audit", "ls", "--json").stdout)[0]
    assert (entry["action"], entry["changes"]) == ("organization.weight_set", {"weight": 3})


def test_organizations_users_and_keys_are_made_listed_and_revoked(onceward: Run) -> None:
    assert onceward("organizations", "add", "acme", "--name", "Acme Ltd").exit_code == 0
    [listed] = json.loads(onceward("organizations", "ls", "--json").stdout)
    assert (listed["slug"], listed["name"]) == ("acme", "Acme Ltd")
    added = onceward("users", "add", "ann@example.org", "-o", "acme", "--role", "owner")
    assert "/login?token=" in added.stdout
    assert "/login?token=" in onceward("users", "login-link", "ann@example.org").stdout
    [member] = json.loads(onceward("users", "ls", "-o", "acme", "--json").stdout)
    assert (member["email"], member["role"]) == ("ann@example.org", "owner")
    [user] = json.loads(onceward("users", "ls", "--json").stdout)
    assert (user["email"], user["organizations"], user["admin"]) == ("ann@example.org", ["acme:owner"], False)
    key = onceward("keys", "add", "ci", "-o", "acme", "--scope", "operator", "--days", "30").stdout.strip()
    assert key.startswith("ow_")
    listing = onceward("keys", "ls", "--json").stdout
    assert key not in listing
    [shown] = json.loads(listing)
    assert key.startswith(shown["prefix"])
    assert onceward("keys", "revoke", shown["prefix"], "--reason", "leaked").exit_code == 0
    actions = [entry["action"] for entry in json.loads(onceward("audit", "ls", "--json").stdout)]
    assert actions[0] == "key.revoked"
    assert actions[-1] == "organization.created"


@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "add", "x"),
        ("keys", "add", "x", "-o", "nobody"),
        ("keys", "revoke", "ow_nothing"),
        ("users", "add", "ann@example.org"),
        ("users", "link", "nobody@example.org"),
        ("trace", "42"),
        ("erase", "--person", "ann@example.org", "--yes"),
        ("erase", "--person", "ann@example.org", "--yes", "--instance", "-o", "acme"),
        ("erase", "--person", " ", "--yes", "--instance"),
        ("export", "--person", "ann@example.org"),
        ("verify", "--only", "nothing.such"),
        ("audit", "verify", "--head", "nonsense"),
    ],
)
def test_what_cannot_be_done_is_a_message_and_a_code(onceward: Run, arguments: tuple[str, ...]) -> None:
    result = onceward(*arguments)
    assert result.exit_code != 0
    assert (
        result.exception is None
        or isinstance(result.exception, SystemExit)
        or code_for(result.exception, FEATURES) is not None
    )


def test_verify_and_audit_verify_pass_and_fail_after_tampering(
    onceward: Run, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onceward("organizations", "add", "acme")
    with_database(database_url, lambda db: Sealer(db, secret_box(load_settings())).step())
    assert onceward("audit", "verify").exit_code == 0
    head = json.loads(onceward("audit", "verify", "--json").stdout)["head"]
    assert onceward("audit", "verify", "--head", head).exit_code == 0
    anchors = tmp_path / "node.log"
    anchors.write_text(f"audit.anchored head={head}\n")
    assert onceward("audit", "verify", "--anchors", str(anchors)).exit_code == 0
    monkeypatch.setenv("ONCEWARD_AUDIT_ANCHOR_URL", tmp_path.as_uri())
    (tmp_path / "audit-head.txt").write_text(f"2:{'0' * 64}\n")
    cut = onceward("audit", "verify")
    assert (cut.exit_code, "its end was cut off" in cut.stdout) == (1, True)
    monkeypatch.delenv("ONCEWARD_AUDIT_ANCHOR_URL")
    assert onceward("audit", "verify").exit_code == 0
    results = json.loads(onceward("verify", "--json").stdout)
    assert all(result["ok"] for result in results), results
    with_database(
        database_url,
        lambda db: db.execute(
            "alter table onceward.audit_log disable trigger all; update onceward.audit_log set action = 'other'"
        ),
    )
    assert onceward("audit", "verify").exit_code == 0, "the entries were proven before"
    assert onceward("verify", "--only", "trust.audit", "--full").exit_code == 1
    found = onceward("audit", "verify")
    assert found.exit_code == 1, "after a problem everything is checked"
    assert "was changed" in found.stdout
    assert onceward("audit", "verify", "--full").exit_code == 1
    assert onceward("verify", "--only", "trust.tenant").exit_code == 0


def test_trace_prints_the_tree(onceward: Run, database_url: str) -> None:
    jobs = "insert into onceward.jobs (id, task, args, caused_by) values (1, 'sell', '{}', null), (2, 'mail', '{}', 1)"
    with_database(database_url, lambda db: db.execute(jobs))
    shown = onceward("trace", "1").stdout.splitlines()
    assert shown[0].startswith("job 1 sell")
    assert "job 2 mail" in shown[1]
    assert [node["id"] for node in json.loads(onceward("trace", "2", "--json").stdout)["causes"]] == [1]


def test_erase_shows_what_it_found_and_asks_first(onceward: Run) -> None:
    onceward("organizations", "add", "acme")
    onceward("users", "add", "ann@example.org", "-o", "acme")
    arguments = ("erase", "--person", "ann@example.org", "-o", "acme")
    asked = onceward(*arguments)
    assert asked.exit_code != 0
    assert "onceward.users.email (1)" in asked.stdout
    dry = json.loads(onceward(*arguments, "--dry-run", "--json").stdout)
    assert (dry["rows"]["accounts"], dry["dry_run"]) == (1, True)
    exported = json.loads(onceward("export", *arguments[1:]).stdout)
    assert exported["data"]["accounts"][0]["row"]["email"] == "ann@example.org"
    done = json.loads(onceward(*arguments, "--yes", "--json").stdout)
    assert done["rows"]["accounts"] == 1
    again = json.loads(onceward(*arguments, "--yes", "--json").stdout)
    assert again["rows"]["accounts"] == 0
    assert json.loads(onceward("export", *arguments[1:]).stdout)["data"] == {}


def test_secrets_are_rotated(onceward: Run) -> None:
    assert onceward("secrets", "rotate").exit_code == 0


def test_a_secret_is_set_from_standard_input_listed_without_value_and_removed(onceward: Run, database_url: str) -> None:
    onceward("organizations", "add", "acme")
    assert (
        "onceward secrets set"
        not in onceward("secrets", "set", "acme", "twilio.auth_token", input="t0p-secret\n").stdout
    )
    shown = onceward("secrets", "ls", "acme", "--json")
    [listed] = json.loads(shown.stdout)
    assert listed["name"] == "twilio.auth_token"
    assert "t0p-secret" not in shown.output + onceward("audit", "ls", "--json").output
    onceward("secrets", "set", "acme", "shop.callback", "--custom", input="another\n")

    async def stored(db: Database) -> Any:
        organization = await db.fetchval("select organization_id from onceward.organizations")
        box = secret_box(load_settings())
        return await OrganizationSecrets(db, box).read(organization, ["twilio.auth_token", "shop.callback"])

    assert with_database(database_url, stored) == {"twilio.auth_token": "t0p-secret", "shop.callback": "another"}
    assert onceward("secrets", "rm", "acme", "twilio.auth_token").exit_code == 0
    assert [each["name"] for each in json.loads(onceward("secrets", "ls", "--json").stdout)] == ["shop.callback"]
    actions = [entry["action"] for entry in json.loads(onceward("audit", "ls", "--json").stdout)]
    assert (actions.count("secret.set"), actions.count("secret.removed")) == (2, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("strip.secret_key", "x"), ("stripe.url", "x"), ("stripe.secret_key", "  "), ("stripe.secret_key", "a\nb")],
)
def test_a_misspelt_name_and_an_unusable_value_are_refused(onceward: Run, name: str, value: str) -> None:
    onceward("organizations", "add", "acme")
    refused = onceward("secrets", "set", "acme", name, input=value)
    assert isinstance(refused.exception, BadSecret)
    assert json.loads(onceward("secrets", "ls", "--json").stdout) == []
