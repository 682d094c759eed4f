"""Organizations with payment accounts of their own: each sells through its own webhooks, and cannot sell for another."""

from __future__ import annotations

from onceward.payments.accounts import add_account
from onceward_apps.ticketing.app import ACCOUNTS
from tests.ticketing.office import BOX, SECRET, Office, Show, Told


async def with_account(office: Office, slug: str) -> tuple[Show, str]:
    """A show of an organization with its own account at Stripe, and the path of the account's webhooks."""
    show = await office.show(slug=slug)
    async with office.db.transaction(role="engine") as tx:
        added = await add_account(
            tx,
            BOX,
            name=ACCOUNTS["stripe"],
            service="stripe",
            organization=show.organization,
            slug=slug,
            secrets=(f"{SECRET}_{slug}",),
            actor="test",
        )
    await office.inbox.catalog.refresh()
    return show, added.path


async def paid(office: Office, show: Show, path: str, secret: str) -> Told:
    checkout = await office.checkout(show, "Stalls A1")
    told = await office.webhook(await office.charge(checkout), path=path, secret=secret)
    await office.drain()
    return told


async def test_each_organization_sells_through_the_webhooks_of_its_own_account(office: Office) -> None:
    """The handlers were bound to one name of a source: a second tenant's events were answered 200 and did nothing."""
    for slug in ("one", "two"):
        show, path = await with_account(office, slug)
        assert (await paid(office, show, path, f"{SECRET}_{slug}")).status in (200, 202)
        assert await office.cash(show) > 0
    assert await office.db.fetchval("select count(*) from ticketing.tickets where status = 'active'") == 2
    await office.assert_sound()


async def test_an_organization_cannot_report_a_sale_of_another_with_its_own_secret(office: Office) -> None:
    await office.source()
    show, _ = await with_account(office, "one")
    platform = await office.show(slug="platform")
    _, foreign = await with_account(office, "two")
    for victim in (show, platform):
        assert (await paid(office, victim, foreign, f"{SECRET}_two")).status in (200, 202)
        assert await office.db.fetchval("select count(*) from ticketing.tickets") == 0
    assert await office.db.fetchval("select coalesce(sum(received), 0) from onceward.payments") == 0
