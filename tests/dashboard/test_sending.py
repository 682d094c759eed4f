"""The page Sending: suppressed addresses, and what services say of accounts and templates."""

from __future__ import annotations

from tests.dashboard.conftest import LogIn
from tests.dashboard.shop import World

PATH = "/dashboard/sending"


async def test_an_operator_suppresses_an_address_with_a_reason_and_allows_it_again(world: World, log_in: LogIn) -> None:
    db = world.runtime.database
    otto = await log_in("otto@acme.example")
    count = "select count(*) from onceward.suppressions where organization_id is not null"
    await otto.post(f"{PATH}/suppress", address="ada@example.org")
    await otto.post(f"{PATH}/suppress", address="ada", reason="not an address")
    assert await db.fetchval(count) == 0
    await otto.post(f"{PATH}/suppress", address="Ada@example.org", reason="asked by phone")
    assert await db.fetchval(count) == 1
    _, text, _ = await otto.get(f"{PATH}?find=ada@")
    assert ("ada@example.org" in text, ">operator<" in text) == (True, True)
    assert "ada@example.org" not in (await otto.get(f"{PATH}?find=bob"))[1]
    bert = await log_in("bert@bolt.example")
    assert "ada@example.org" not in (await bert.get(PATH))[1]
    await bert.post(f"{PATH}/allow", address="ada@example.org", reason="mine now")
    assert await db.fetchval(count) == 1
    await otto.post(f"{PATH}/allow", address="ada@example.org", reason="asked again")
    assert await db.fetchval(count) == 0
    rows = await db.fetch("select action from onceward.audit_log where action like 'mail.%' order by id")
    assert [row["action"] for row in rows] == ["mail.suppress", "mail.unsuppress"]


async def test_the_page_says_what_to_do_about_a_refused_account_and_template(world: World, log_in: LogIn) -> None:
    await world.runtime.database.execute(
        "insert into onceward.account_troubles (channel, template, language, reason, advice, probe_at)"
        " values ('whatsapp', 'reminder', 'pt', '132015', 'Edit it in WhatsApp Manager.', clock_timestamp())"
    )
    await world.runtime.database.execute(
        "insert into onceward.service_states (service, account, subject, state, is_bad, changed_at)"
        " values ('whatsapp', '42', 'number:15550100200', 'FLAGGED', true, onceward.now())"
    )
    await world.runtime.database.execute(
        "insert into onceward.mail_domains (id, organization_id, domain, selector, sender, private_key, verified_at)"
        " select gen_random_uuid(), organization_id, slug || '.example', 'k1', null, '', verified_at"
        "   from onceward.organizations, unnest(array[case when slug = 'bolt' then onceward.now() end]) as verified_at"
        "  where slug in ('acme', 'bolt')"
    )
    root = await log_in("root@example.org")
    _, text, _ = await root.get(PATH)
    for shown in (
        "template reminder (pt)",
        "Edit it in WhatsApp Manager.",
        "number:15550100200",
        "flagged",
        "k1._domainkey.acme.example",
        "bolt.example",
    ):
        assert shown in text
    vera = await log_in("vera@acme.example")
    text = (await vera.get(PATH))[1]
    assert "number:15550100200" not in text, "the account of the installation"
    assert ("acme.example" in text, "waits for DNS" in text, "bolt.example" in text) == (True, True, False)
