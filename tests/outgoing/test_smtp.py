"""SMTP against a relay on loopback: when a failure means not sent, refused, or unknown; connections kept."""

import asyncio
from email.message import EmailMessage

import pytest

from onceward.integrations.smtp import SmtpSimulator
from onceward.integrations.smtp.client import Relay, Smtp
from onceward.messages.mail_composer import message_id
from onceward.services.outcome import Accepted, Refused, Throttled, Unknown, Unreachable


@pytest.fixture
async def relay():
    async with SmtpSimulator() as relay:
        yield relay


@pytest.fixture
async def smtp(relay):
    smtp = Smtp(Relay(relay.host, relay.port, encryption="none", timeout_s=1))
    yield smtp
    await smtp.aclose()


def mail(subject: str = "Your tickets") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Shop <shop@example.com>"
    message["To"] = "ada@example.com"
    message["Subject"] = subject
    message.set_content("Grüße\n.\nline that starts with a dot above\n")
    return message


async def send(smtp: Smtp, *, key: str = "m:1", to: str = "ada@example.com"):
    async with smtp.turn() as failure:
        return failure or await smtp.send(mail(), key=key, sender="shop@example.com", to=to)


async def test_a_mail_arrives_whole_with_a_message_id_made_from_its_key(smtp, relay) -> None:
    outcome = await send(smtp)
    assert isinstance(outcome, Accepted)
    taken = relay.mails[0]
    assert outcome.reference == taken.message["Message-ID"] == message_id("m:1", domain="example.com")
    assert taken.message["Date"]
    assert taken.recipients == ("ada@example.com",)
    assert taken.message.get_content().splitlines()[:3] == ["Grüße", ".", "line that starts with a dot above"]


async def test_a_mail_sent_again_has_the_same_message_id(smtp, relay) -> None:
    relay.drop_after_send()
    assert isinstance(await send(smtp), Unknown)
    assert isinstance(await send(smtp), Accepted)
    assert len({taken.message["Message-ID"] for taken in relay.mails}) == 1
    assert len(relay.mails) == 2


async def test_one_connection_serves_many_mails(smtp, relay) -> None:
    for number in range(5):
        assert isinstance(await send(smtp, key=f"m:{number}"), Accepted)
    assert relay.connections == 1
    assert len(relay.mails) == 5


async def test_mails_at_once_use_no_more_connections_than_allowed(relay) -> None:
    smtp = Smtp(Relay(relay.host, relay.port, encryption="none", max_connections=3))
    outcomes = await asyncio.gather(*(send(smtp, key=f"m:{number}") for number in range(12)))
    await smtp.aclose()
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    assert relay.connections <= 3


async def test_a_connection_that_is_being_opened_counts(relay, monkeypatch) -> None:
    """A mail begins while another one opens its connection, and finds the one that a third has left."""
    smtp = Smtp(Relay(relay.host, relay.port, encryption="none", max_connections=3))
    slow, connect = asyncio.Event(), smtp._connect
    async with smtp.turn():

        async def connect_slowly():
            await slow.wait()
            return await connect()

        monkeypatch.setattr(smtp, "_connect", connect_slowly)
        second = asyncio.create_task(send(smtp, key="m:2"))
        while smtp._turns < 2:
            await asyncio.sleep(0)
    async with asyncio.timeout(5):
        assert isinstance(await send(smtp, key="m:3"), Accepted)
    slow.set()
    assert isinstance(await second, Accepted)
    await smtp.aclose()
    assert relay.connections == 2


async def test_a_connection_is_retired_after_its_share_of_mails(relay) -> None:
    smtp = Smtp(Relay(relay.host, relay.port, encryption="none", mails_per_connection=2))
    for number in range(4):
        await send(smtp, key=f"m:{number}")
    await smtp.aclose()
    assert relay.connections == 2


async def test_a_kept_connection_that_the_relay_closed_is_replaced_without_a_trace(smtp, relay) -> None:
    await send(smtp, key="m:1")
    relay.close_connections()
    assert isinstance(await send(smtp, key="m:2"), Accepted)
    assert relay.connections == 2
    assert len(relay.mails) == 2


async def test_a_relay_that_is_down_was_sent_nothing(closed_url) -> None:
    port = int(closed_url.rpartition(":")[2])
    outcome = await send(Smtp(Relay("127.0.0.1", port, encryption="none")))
    assert isinstance(outcome, Unreachable)


async def test_an_address_that_does_not_exist_is_refused_for_good_and_not_repeated(smtp, relay) -> None:
    relay.refuse("nobody@example.com")
    outcome = await send(smtp, to="nobody@example.com")
    detail = {"undeliverable": "5.1.1"}
    assert outcome == Refused("relay refused the recipient (550 5.1.1)", permanent=True, recipient=True, detail=detail)
    assert "nobody" not in repr(outcome)
    assert isinstance(await send(smtp, key="m:2"), Accepted)
    assert relay.mails[0].recipients == ("ada@example.com",)
    assert relay.connections == 1


async def test_a_greylisted_mail_may_be_tried_again(smtp, relay) -> None:
    relay.fail_next()
    outcome = await send(smtp)
    assert outcome == Refused("relay refused the mail (451 4.3.0)", permanent=False)
    assert isinstance(await send(smtp), Accepted)


async def test_a_mail_refused_for_its_content_is_refused_for_good(smtp, relay) -> None:
    relay.fail_next(reply="554 5.7.1 looks like spam")
    outcome = await send(smtp)
    assert isinstance(outcome, Refused)
    assert outcome.permanent


async def test_a_relay_that_is_closing_asks_for_a_pause(smtp, relay) -> None:
    relay.refuse("ada@example.com", reply="421 4.3.2 shutting down")
    assert isinstance(await send(smtp), Throttled)


async def test_silence_after_the_mail_is_unknown(smtp, relay) -> None:
    relay.hang()
    assert isinstance(await send(smtp), Unknown)


async def test_a_relay_that_offers_no_encryption_is_not_used_when_it_is_asked_for(relay) -> None:
    outcome = await send(Smtp(Relay(relay.host, relay.port, encryption="starttls", timeout_s=1)))
    assert isinstance(outcome, Unreachable)
    assert relay.mails == []


def test_the_password_does_not_show() -> None:
    assert "hunter2" not in repr(Relay("mail.example.com", username="shop", password="hunter2"))
