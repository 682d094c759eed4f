"""`onceward integrations ls` and `onceward services check`: which services there are, and whether their accounts work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from typer.testing import CliRunner, Result

from onceward.cli.commands import build
from onceward.db import Database
from onceward.integration import integrations
from onceward.runtime import FEATURES
from onceward.services import Accepted, NotSet, Refused, Services, callable_services, service_settings
from onceward.settings import Settings
from onceward.testing.simulators import Simulator
from onceward.trust import SecretBox, create_organization
from onceward.trust.organization_secrets import set_secret

KEY = "a-key-of-the-tests-which-is-long-enough"
BLIND = {"ga4", "segment"}
"""The services that answer 200 to wrong credentials."""
PREFIX = {"slack": "xoxb-x"}


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONCEWARD_STRIPE_SECRET_KEY", "ONCEWARD_APP", "ONCEWARD_SIMULATORS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def stripe() -> AsyncIterator[Simulator]:
    async with integrations().load("stripe", "simulator")() as simulator:
        yield simulator


async def command(*args: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, build(FEATURES), list(args))


@pytest.mark.parametrize("name", callable_services())
async def test_a_check_tells_valid_credentials_from_refused_ones(name: str) -> None:
    declared = integrations()[name]
    services = Services()
    async with integrations().load(name, "simulator")() as simulator:
        refused = Accepted if name in BLIND else Refused
        for ending, expected in (("", Accepted), ("_invalid", refused)):
            account = {each.name: f"{PREFIX.get(name, 'x')}{ending}" for each in declared.account if each.required}
            for field in ("account_sid", "auth_token", "phone_number_id"):
                if field in account and not ending:
                    account[field] = getattr(simulator, field)
            if name == "whatsapp":
                simulator.number_tokens = {"x"}
            services.configure(
                Settings(simulators={name: getattr(simulator, "base_url", simulator.url)}).using(
                    service_settings(name, **account)
                )  # pyright: ignore[reportCallIssue]
            )
            answer = await (await services.get(name, None)).check()
            assert isinstance(answer, expected)
            assert ("unverified" in answer.detail) == (name in BLIND)
    await services.aclose()


async def test_the_command_checks_the_account_of_the_installation_or_of_an_organization(
    stripe: Simulator, db: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEWARD_SIMULATORS", f"stripe={stripe.url}")
    monkeypatch.setenv("ONCEWARD_STRIPE_SECRET_KEY", "sk_test_installation")
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", database_url)
    monkeypatch.setenv("ONCEWARD_SECRET_KEY", KEY)
    fine = await command("services", "check", "stripe")
    assert (fine.exit_code, fine.stdout) == (0, "Stripe accepts the credentials of the installation\n")
    async with db.transaction(role="engine") as tx:
        organization = await create_organization(tx, "acme", actor="test")
    async with db.transaction(organization=organization.organization_id) as tx:
        await set_secret(tx, SecretBox([KEY]), "stripe.secret_key", "sk_test_invalid", actor="test")
    refused = await command("services", "check", "stripe", "--organization", "acme")
    assert "Stripe with the account of acme: refused: HTTP 401" in str(refused.exception)
    assert "sk_test" not in str(refused.exception)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "there is no integration 'nothing': use one of "),
        ("github", "GitHub has no client, so there is no account to check: use one of "),
    ],
)
async def test_what_cannot_be_checked_is_a_clear_error(name: str, message: str) -> None:
    assert message in str((await command("services", "check", name)).exception)


async def test_a_service_without_an_account_is_a_clear_error() -> None:
    refused = (await command("services", "check", "stripe")).exception
    assert isinstance(refused, NotSet)
    assert "ONCEWARD_STRIPE_SECRET_KEY is not set" in str(refused)


async def test_the_list_shows_what_each_integration_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_STRIPE_SECRET_KEY", "sk_test_installation")
    rows = {row["name"]: row for row in json.loads((await command("integrations", "ls", "--json")).stdout)}
    assert set(rows) == set(integrations())
    assert rows["stripe"] == {
        "name": "stripe",
        "title": "Stripe",
        "capabilities": ["webhooks", "client", "payments", "simulator"],
        "from": "onceward",
        "configured": True,
    }
    assert (rows["daily"]["configured"], rows["github"]["configured"]) == (False, None)
    table = (await command("integrations", "ls")).stdout
    assert "Cal.com" in table
    assert "webhooks, client, simulator" in table
