"""Mail that arrives: signatures, envelope senders, international addresses, bounces, and the list of those who get no mail."""

from __future__ import annotations

from email import message_from_bytes, policy
from typing import Any

import dkim
import pytest

from onceward.db import Database
from onceward.integrations.smtp import SmtpSimulator
from onceward.integrations.smtp.channel import SmtpChannel
from onceward.integrations.smtp.client import Relay, Smtp
from onceward.messages.bounces import apply_mail_report, read_report
from onceward.messages.dkim import new_key, signed
from onceward.messages.erasers import ERASERS
from onceward.messages.mail_address import bounce_address, message_of_bounce, wire_address
from onceward.messages.mail_check import DnsFailed, check_domain
from onceward.messages.mail_domains import DomainExists, MailIdentities, add_domain, mark_verified
from onceward.messages.suppression import list_suppressions, remove_suppression, suppress
from onceward.testing import drain
from onceward.trust import SecretBox, create_organization
from onceward.trust.erase import erase

SECRETS = (b"s" * 32,)
RETURN_PATH = "bounces@mail.example.org"
KEY = new_key("example.org", "onceward")
BOX = SecretBox(["a-key-of-the-tests-which-is-long-enough"])


def verified(content: bytes, key: Any = KEY) -> bool:
    return dkim.verify(content, dnsfunc=lambda name, timeout=5: key.record.encode())


@pytest.mark.parametrize(
    "content",
    [
        b"From: a@example.org\nTo: b@example.net\nSubject: One\nDate: Wed, 18 Nov 2026 10:00:00 GMT\n\nHello\n",
        b"From: a@example.org\nTo: b@example.net\nSubject: Two\n lines  of\tspace\n\nTrailing  \n\tspace \n\n\n",
        b"From: a@example.org\nSubject: No body\n\n",
        "From: a@example.org\nTo: jörg@example.net\nSubject: Grüße\n\nGrüße\n".encode(),
    ],
)
def test_another_implementation_verifies_our_signature_and_refuses_a_changed_mail(content: bytes) -> None:
    mail = signed(content, KEY).replace(b"\n", b"\r\n")
    assert verified(mail)
    assert not verified(mail.replace(b"Subject: ", b"Subject: x", 1))
    assert not verified(mail + b"more\r\n")
    assert not verified(b"From: other@example.org\r\n" + mail)
    assert not verified(mail, new_key("example.org", "onceward"))
    assert all(len(line) <= 100 for line in mail.split(b"\r\n\r\n")[0].split(b"\r\n"))


def test_international_addresses_on_the_wire() -> None:
    assert wire_address("jo@bücher.example").text == "jo@xn--bcher-kva.example"
    assert wire_address("jörg@bücher.example") == wire_address("jörg@xn--bcher-kva.example")
    assert wire_address("jörg@bücher.example").needs_utf8
    assert not wire_address("jo@bücher.example").needs_utf8
    for bad in ("jörg", "jörg@", "jö rg@example.org", "jörg@exa\u2028mple.org", "jo@\u0301.example"):
        with pytest.raises(ValueError):
            wire_address(bad)


def test_only_our_own_envelope_senders_name_a_message() -> None:
    address = bounce_address(RETURN_PATH, 41, SECRETS)
    assert message_of_bounce(address.upper(), RETURN_PATH, (b"new", *SECRETS)) == 41
    assert message_of_bounce(address.replace("m41", "m42"), RETURN_PATH, SECRETS) is None
    assert message_of_bounce(address, "other@mail.example.org", SECRETS) is None
    assert message_of_bounce(RETURN_PATH, RETURN_PATH, SECRETS) is None


def report(to: str, *, action: str = "failed", status: str = "5.1.1", type: str = "delivery-status") -> bytes:
    """Return a mail as mail servers write it about one of ours."""
    fields = {
        "delivery-status": "Reporting-MTA: dns; mx.example.net\n\nFinal-Recipient: rfc822; ada@example.net\n"
        f"Action: {action}\nStatus: {status}\nDiagnostic-Code: smtp; 550 no such user\n",
        "feedback-report": "Feedback-Type: abuse\nUser-Agent: Example/1\nVersion: 1\n",
    }
    return (
        f"From: MAILER-DAEMON@mx.example.net\nTo: {to}\nSubject: Undelivered\nMIME-Version: 1.0\n"
        f'Content-Type: multipart/report; report-type={type}; boundary="b"\n\n'
        f"--b\nContent-Type: text/plain\n\nSorry.\n--b\nContent-Type: message/{type}\n\n{fields[type]}\n"
        f"--b\nContent-Type: text/rfc822-headers\n\nReturn-Path: <{to}>\nSubject: Hello\n--b--\n"
    ).encode()


@pytest.mark.parametrize(
    ("mail", "kind", "suppresses"),
    [
        ({}, "failed", "bounce"),
        ({"status": "5.2.2"}, "failed", None),
        ({"status": "4.4.7"}, "failed", None),
        ({"action": "delayed", "status": "4.2.0"}, "delayed", None),
        ({"action": "delivered", "status": "2.0.0"}, "delivered", None),
        ({"type": "feedback-report"}, "complaint", "complaint"),
    ],
)
def test_reports_of_mail_servers_are_read(mail: dict[str, str], kind: str, suppresses: str | None) -> None:
    content = report(bounce_address(RETURN_PATH, 41, SECRETS), **mail)
    found = read_report(content, return_path=RETURN_PATH, secrets=SECRETS)
    assert found is not None
    assert (found.message, found.kind, found.suppresses) == (41, kind, suppresses)
    assert read_report(report(RETURN_PATH, **mail), return_path=RETURN_PATH, secrets=SECRETS) is None
    assert read_report(b"Subject: out of office\n\nBye", return_path=RETURN_PATH, secrets=SECRETS) is None


@pytest.fixture
def smtp(wires) -> SmtpChannel:
    sims = wires.sims

    async def identity(organization: Any) -> Any:
        from onceward.messages.mail_domains import MailIdentity

        return MailIdentity("Shop <hello@example.org>", KEY)

    relay = Relay(sims.smtp.host, sims.smtp.port, encryption="none", timeout_s=5.0, host_name="shop.example.org")
    return SmtpChannel(
        Smtp(relay),
        sender="Shop <hello@example.org>",
        identity=identity,
        return_path=lambda id: bounce_address(RETURN_PATH, id, SECRETS),
    )


async def test_a_mail_is_signed_and_a_bounce_ends_the_mails_to_its_address(office, wires, smtp) -> None:
    here = await office(smtp)
    relay: SmtpSimulator = wires.sims.smtp
    id = await here.send("news", to="ada@example.net", key="k1")
    await drain(here.engine)
    [mail] = relay.mails
    assert relay.host_names[-1] == "shop.example.org"
    assert mail.sender == bounce_address(RETURN_PATH, id, SECRETS)
    assert verified(mail.content)
    text = mail.message.get_body(("plain",)).get_content()  # pyright: ignore[reportOptionalMemberAccess]
    link = str(mail.message["List-Unsubscribe"]).strip(" <>")
    assert f"Unsubscribe: {link}" in text

    found = read_report(report(mail.sender), return_path=RETURN_PATH, secrets=SECRETS)
    assert found is not None
    outcomes = []
    for _ in range(2):
        async with here.db.transaction(role="engine") as tx:
            outcomes.append(await apply_mail_report(tx, found))
    assert outcomes == ["suppressed", "failed"]
    row = await here.message(id)
    assert (row["delivery"], row["reason"]) == ("failed", "bounced (5.1.1)")

    later = await here.send("news", to="Ada@Example.net", key="k2")
    await drain(here.engine)
    row = await here.message(later)
    assert (row["status"], row["reason"], len(relay.mails)) == ("cancelled", "suppressed_address", 1)

    await erase(here.db, "ada@example.net", ERASERS, organization=None, actor="test")
    [kept] = await list_suppressions(here.db)
    assert (kept["address"], kept["reason"]) == (None, "bounce")
    again = await here.send("news", to="ada@example.net", key="k3")
    await drain(here.engine)
    assert (await here.message(again))["reason"] == "suppressed_address"
    async with here.db.transaction(role="engine") as tx:
        assert await remove_suppression(tx, kept["hash"], organization=None, by="test")
        assert not await remove_suppression(tx, kept["hash"], organization=None, by="test")
    last = await here.send("news", to="ada@example.net", key="k4")
    await drain(here.engine)
    assert (await here.message(last))["status"] == "success"


async def test_a_relay_that_knows_no_such_mailbox_suppresses_it_for_its_organization_only(office, wires, smtp) -> None:
    here = await office(smtp)
    wires.sims.smtp.refuse("gone@example.net")
    await here.send("news", to="gone@example.net", key="k1")
    await drain(here.engine)
    assert [each["status"] for each in await list_suppressions(here.db)] == ["5.1.1"]
    async with here.db.transaction(role="engine") as tx:
        other = (await create_organization(tx, "other", actor="test")).organization_id
    async with here.engine.transaction(organization=other) as tx:
        assert await tx.fetchval("select count(*) from onceward.suppressions") == 0
        assert await suppress(tx, "gone@example.net", reason="operator", source="test")


async def test_addresses_beyond_ascii_need_a_relay_with_smtputf8(office, wires, smtp) -> None:
    here = await office(smtp)
    relay: SmtpSimulator = wires.sims.smtp
    await here.send("news", to="jo@bücher.example", key="k1")
    await here.send("news", to="jörg@bücher.example", key="k2")
    await drain(here.engine)
    sent = {mail.recipients[0]: message_from_bytes(mail.content, policy=policy.SMTPUTF8) for mail in relay.mails}
    assert set(sent) == {"jo@xn--bcher-kva.example", "jörg@xn--bcher-kva.example"}
    assert {str(mail["To"]) for mail in sent.values()} == set(sent)
    assert all(verified(mail.content) for mail in relay.mails)
    await smtp.aclose()
    relay.offers_smtputf8 = False
    id = await here.send("news", to="jörg@bücher.example", key="k3")
    await drain(here.engine)
    row = await here.message(id)
    assert row["status"] == "dead_letter"
    assert "does not offer SMTPUTF8" in row["reason"]


async def test_a_key_signs_when_dns_has_it_and_an_organization_needs_that_proof_for_its_sender(db: Database) -> None:
    async with db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, "acme", actor="test")).organization_id
        options: dict[str, Any] = {"organization": organization, "selector": "s1", "by": "test"}
        key = await add_domain(tx, BOX, "Acme.example", sender="Acme <hi@acme.example>", **options)
        with pytest.raises(ValueError, match=r"must be an address of acme\.example"):
            await add_domain(tx, BOX, "acme.example", sender="x@bank.example", **options)
        with pytest.raises(DomainExists):
            await add_domain(tx, BOX, "acme.example", sender=None, **options)

    def identities() -> MailIdentities:
        return MailIdentities(db, lambda: BOX, "Shop <hello@example.org>")

    assert (await identities().find(organization)).sender == "Shop <hello@example.org>"
    async with db.transaction(role="engine") as tx:
        await mark_verified(tx, await tx.fetchval("select id from onceward.mail_domains"), is_verified=True)
    own = await identities().find(organization)
    assert own.sender == "Acme <hi@acme.example>"
    assert verified(own.sign(b"From: hi@acme.example\n\nHi\n").replace(b"\n", b"\r\n"), key)
    assert (await identities().find(None)).key is None


class Zone:
    """DNS for tests."""

    def __init__(self, **records: list[str]) -> None:
        self.records = records

    async def txt(self, name: str) -> list[str]:
        if self.records.get("broken"):
            raise DnsFailed("TXT: Timeout")
        return self.records.get(name, [])

    async def mx(self, name: str) -> list[str]:
        return self.records.get(f"MX {name}", [])


GOOD = {
    "example.org": ["some=thing", "v=spf1 include:relay.example -all"],
    KEY.name: [KEY.record],
    "_dmarc.example.org": ["v=DMARC1; p=reject"],
    "MX example.org": ["mx.example.org"],
}


@pytest.mark.parametrize(
    ("change", "check", "verdict", "detail"),
    [
        ({}, "SPF", "ok", "include:relay.example"),
        ({"example.org": []}, "SPF", "fail", "there is no SPF record"),
        ({"example.org": ["v=spf1 -all", "v=spf1 ~all"]}, "SPF", "fail", "2 SPF records"),
        ({"example.org": ["v=spf1 +all"]}, "SPF", "warn", "everybody"),
        ({"example.org": ["v=spf1 " + "include:a.example " * 11 + "-all"]}, "SPF", "fail", "11 DNS lookups"),
        ({}, "DKIM", "ok", "our key"),
        ({KEY.name: ["v=DKIM1; p=AAAA"]}, "DKIM", "fail", "another key"),
        ({KEY.name: []}, "DKIM", "fail", "publish this TXT record"),
        ({"_dmarc.example.org": ["v=DMARC1; p=none"]}, "DMARC", "warn", "do nothing"),
        ({"_dmarc.example.org": []}, "DMARC", "fail", "publish"),
        ({"MX example.org": []}, "MX", "warn", "takes no mail"),
        ({"broken": ["yes"]}, "SPF", "fail", "nothing is known"),
    ],
)
async def test_dns_decides_whether_mail_arrives(
    change: dict[str, list[str]], check: str, verdict: str, detail: str
) -> None:
    found = await check_domain(Zone(**{**GOOD, **change}), "example.org", return_domain=None, key=KEY)
    [one] = [each for each in found if each.check == check]
    assert (one.verdict, detail in one.detail) == (verdict, True), one
