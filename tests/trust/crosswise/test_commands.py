"""Commands that act for an organization reach into no other, whatever ids they are given."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.runtime import FEATURES
from onceward_apps.all import app as bundled
from tests.trust.crosswise import coursegen
from tests.trust.crosswise.rows import digest, needles
from tests.trust.crosswise.test_routes import filled
from tests.trust.crosswise.world import World

ALL = FEATURES.plus(bundled.features())

APP = "--app onceward_apps.all:app"

# Arguments by command, as in the table of routes; none: it makes or follows something and names nothing that exists.
COMMANDS: dict[str, str | None] = {
    "audit ls": "--json",
    "keys ls": "--json",
    "keys add": None,
    "users ls": "--json",
    "users add": None,
    "sources add": None,
    "services check": None,
    "sql-logins add": None,
    "endpoints add": None,
    "endpoints ls": "--json",
    "endpoints show": "$endpoint",
    "endpoints set": "$endpoint --url http://127.0.0.1:9009/x",
    "endpoints rotate": "$endpoint",
    "endpoints test": "$endpoint",
    "endpoints recover": "$endpoint --since 2026-01-01T00:00:00",
    "endpoints disable": "$endpoint",
    "endpoints enable": "$endpoint",
    "deliveries ls": "--json",
    "deliveries tail": None,
    "deliveries resend": "$delivery",
    "deliveries replay": "--since 2026-01-01T00:00:00 --endpoint $endpoint",
    "deliveries resends": "--json",
    "deliveries cancel": "$resend",
    "messages ls": "--json",
    "messages cancel": "$message_key",
    "messages resolve": "sent --channel email --dry-run",
    "messages resume": None,
    "consents ls": "--json",
    "consents show": None,
    "mail domains add": None,
    "mail domains rm": None,
    "mail suppressions ls": "--json",
    "mail suppressions add": None,
    "mail suppressions rm": None,
    "whatsapp check": None,
    "payments ls": f"--json {APP}",
    "payments show": f"$payment {APP}",
    "payments refund": f"$payment --reason test {APP}",
    "payments refund-batch": f"$refund_batch {APP}",
    "payments refund-many": f"$payment --reason test {APP}",
    "payments repeat": f"$refund_to_repeat {APP}",
    "payments settle": f"$refund_to_settle --note test {APP}",
    "payments accounts add": None,
    "ledger balance": "--json",
    "ledger export": "--since 2026-01-01 --until 2031-01-01",
    "ledger close": "--until 2020-01-01",
    "ledger statement": "$account --currency EUR",
    "ticketing rotate-key": "",
    "ticketing venue": None,
    "ticketing fee": None,
    "ticketing event": "new --venue $venue --starts 2031-06-21T18:00:00+02:00 --currency EUR --places L:100:5",
    "ticketing events": "--json",
    "ticketing orders": "$event --json",
    "ticketing occupancy": "$event",
    "ticketing sell": None,
    "ticketing record-transfers": None,
    "ticketing tickets-pdf": "$checkout --file /dev/null",
    "ticketing invoice": None,
    "ticketing taxes": "--since 2026-01-01 --until 2031-02-01 --json",
    "ticketing settle": None,
    "ticketing settlements": "--json",
    "ticketing pay-settlement": None,
    "ticketing refunds": "--json",
    "ticketing repeat-refund": "$failed_refund",
    "ticketing refund": "$checkout --reason test",
    "ticketing settle-refund": "$unpaid_refund --note test",
    "ticketing cancel-event": "$event --reason test --yes",
    "ticketing cancellation": "$event",
    "ticketing door": "$event --name theirs",
    "ticketing doors": "$event --json",
    "ticketing end-door": "$door",
    "engagement funnel": "--json",
    "engagement user": "$engaged --json",
    "engagement preview": "--json",
    "engagement returns": "--json",
    "engagement campaigns": "--json",
    "engagement pause": "goodbye",
    "engagement resume": "goodbye",
    "engagement opt-out": "$engaged",
    "engagement test-send": None,
    **coursegen.COMMANDS,
    "clinic day": "--on 2031-06-21 --json",
    "clinic show": "$appointment",
    "clinic inbox": "--json",
    "clinic patients": "--json",
    "clinic save-patient": "changed --id $patient",
    "clinic book": "$patient --starts 2031-06-22T09:00:00Z",
    "clinic reschedule": "$appointment --starts 2031-06-23T09:00:00Z",
    "clinic confirm": "$appointment",
    "clinic payment-link": "$appointment",
    "clinic room": "$appointment",
    "clinic export-patient": "$patient",
    "clinic refund": "$paid_visit --reason test --key 1",
    "clinic cancel": "$appointment --reason test",
    "clinic erase-patient": "$leaver --reason test --yes",
    "learning rotate-key": "",
    "learning rotate-badge-key": "",
    "learning cohort": None,
    "learning cohorts": "--json",
    "learning students": "$cohort --json",
    "learning standing": "$enrollment",
    "learning attendance": "$enrollment $session --reason test",
    "learning revoke-certificate": "$enrollment --reason test",
    "learning reissue-certificate": None,
    "learning domain": None,
    "learning status": "$cohort CANCELLED --yes",
    "endpoints rm": "$endpoint",
    "export": "--person $message_key",
    "erase": "--person $message_key --yes",
}


def with_organization(group: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from with_organization(command, (*path, name))
        elif any("--organization" in param.opts for param in command.params):
            yield " ".join((*path, name))


def test_every_command_with_an_organization_is_in_the_table() -> None:
    assert set(with_organization(typer.main.get_command(build(ALL)))) == set(COMMANDS)


@pytest.mark.timeout(240)
async def test_a_command_for_one_organization_shows_and_changes_nothing_of_another(
    world: World, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    """The rows are compared once, after all commands; the thorough run compares after each and so names the culprit."""
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", world.db.url)
    monkeypatch.setenv("ONCEWARD_SECRET_KEY", "k" * 32)
    monkeypatch.setenv("ONCEWARD_ALLOW_LOOPBACK_ENDPOINTS", "true")
    runner, line = CliRunner(), build(ALL)
    a, b = world.a, world.b
    unwanted = await needles(world.db, a.id) | {a.private, a.private.upper(), a.public}
    before = await digest(world.db, a.id)
    problems: list[str] = []
    for org, expected in ((b, False), (a, True)):
        for name, arguments in COMMANDS.items():
            if arguments is None:
                continue
            given = [filled(each, a, org) for each in arguments.split()]
            words = [*name.split(), *given, "--organization", org.slug]
            done = await asyncio.to_thread(runner.invoke, line, words)
            said = f"{done.output} {done.exception}"
            if expected:
                if done.exit_code != 0:
                    problems.append(f"{name} does not work for its owner: {said[-500:]}")
                continue
            for each in given:
                said = said.replace(each, "")
            problems += [f"{name} shows {each}" for each in unwanted if each in said]
            if thorough:
                after = await digest(world.db, a.id)
                problems += [f"{name} changed {table}" for table in after if after[table] != before[table]]
                before = after
        if not expected:
            after = await digest(world.db, a.id)
            problems += [f"a command changed {table}" for table in after if after[table] != before[table]]
    assert not problems, "\n".join(problems)
