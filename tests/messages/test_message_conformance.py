"""Every channel keeps the same promises, whatever service is behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from onceward.messages import Channel, Letter, Template, render
from onceward.messages.channels import FolderChannel
from onceward.services.outcome import Absent, Accepted, Refused, Throttled, Unknown, Unreachable

TEMPLATE = Template(
    "hello",
    {"en": {"subject": "Hello {{ name }}", "text": "Dear {{ name }}", "approved": "Dear {{ name }}."}},
    {"whatsapp": {"name": "hello_1", "language": {"en": "en_US"}}},
)


@dataclass(frozen=True)
class Case:
    """A channel, where its letters go, and how its service is watched and disturbed."""

    channel: Channel
    to: str
    service: Any
    received: Callable[[], int]
    stop: Callable[[], Any] | None = None


def make(name: str, wires, tmp_path) -> Case:
    sims = wires.sims
    match name:
        case "smtp":
            return Case(wires.smtp, "ada@example.org", sims.smtp, lambda: len(sims.smtp.mails), sims.smtp.stop)
        case "brevo":
            return Case(wires.brevo, "ada@example.org", sims.brevo, lambda: len(sims.brevo.mails), sims.brevo.stop)
        case "slack":
            return Case(wires.slack, "#ops", sims.slack, lambda: len(sims.slack.messages), sims.slack.stop)
        case "slack-webhook":
            return Case(wires.webhook, "#ops", sims.slack, lambda: len(sims.slack.messages), sims.slack.stop)
        case "sms":
            count = lambda: len(sims.twilio.messages)  # noqa: E731
            return Case(wires.sms, "+4915112345678", sims.twilio, count, sims.twilio.stop)
        case "whatsapp":
            count = lambda: len(sims.whatsapp.messages)  # noqa: E731
            return Case(wires.whatsapp, "+4915112345678", sims.whatsapp, count, sims.whatsapp.stop)
        case "push":
            browser = sims.webpush.subscribe()
            to = orjson.dumps({"endpoint": browser.endpoint, "p256dh": browser.p256dh, "auth": browser.auth}).decode()
            return Case(wires.push, to, sims.webpush, lambda: len(browser.pushes), sims.webpush.stop)
        case "folder":
            folder = tmp_path / "mail"
            return Case(
                FolderChannel(folder, sender="a@example.org"),
                "ada@example.org",
                None,
                lambda: len(list(folder.glob("*.eml"))),
            )
        case _:
            raise AssertionError(name)


OVER_A_SOCKET = ["smtp", "brevo", "slack", "slack-webhook", "sms", "whatsapp", "push"]


@pytest.fixture
def case(request: pytest.FixtureRequest, wires, tmp_path) -> Case:
    return make(request.param, wires, tmp_path)


def letter(case: Case) -> Letter:
    data = {"name": "Ada"}
    rendered = render(TEMPLATE, data, locale="en", channel=case.channel.name)
    return Letter(
        id=7,
        key="message:7:send",
        to=case.to,
        rendered=rendered,
        template=TEMPLATE,
        data=data,
        sending_since=datetime.now(UTC),
    )


every = pytest.mark.parametrize("case", [*OVER_A_SOCKET, "folder"], indirect=True)
over_a_socket = pytest.mark.parametrize("case", OVER_A_SOCKET, indirect=True)


@every
async def test_a_send_arrives_once_and_is_accepted(case: Case) -> None:
    assert isinstance(await case.channel.send(letter(case)), Accepted)
    assert case.received() == 1


@over_a_socket
async def test_a_service_that_is_not_there_got_nothing(case: Case) -> None:
    assert case.stop is not None
    sent = letter(case)
    await case.stop()
    assert isinstance(await case.channel.send(sent), Unreachable)
    assert case.received() == 0


@over_a_socket
async def test_silence_after_the_send_is_unknown(case: Case) -> None:
    case.service.drop_after_send()
    assert isinstance(await case.channel.send(letter(case)), Unknown)
    assert case.received() == 1


@over_a_socket
async def test_a_request_to_slow_down_is_heard(case: Case) -> None:
    if case.channel.name == "email" and not case.channel.repeatable_for_s:
        case.service.fail_next(reply="421 4.7.0 too much")
    else:
        case.service.rate_limit(retry_after_s=3)
    assert isinstance(await case.channel.send(letter(case)), Throttled)
    assert case.received() == 0


@over_a_socket
async def test_a_refusal_says_why_without_naming_the_recipient(case: Case) -> None:
    if case.channel.name == "email" and not case.channel.repeatable_for_s:
        case.service.refuse(case.to)
    else:
        case.service.fail_next(status=400)
    outcome = await case.channel.send(letter(case))
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert case.to not in outcome.reason


@every
async def test_a_repeat_has_no_second_effect_where_the_channel_says_so(case: Case) -> None:
    if not case.channel.repeatable_for_s:
        pytest.skip("knows no keys")
    for _ in range(2):
        assert isinstance(await case.channel.send(letter(case)), Accepted)
    assert case.received() == 1


@every
async def test_a_send_can_be_looked_up_where_the_channel_says_so(case: Case) -> None:
    if not case.channel.readable:
        with pytest.raises(NotImplementedError):
            await case.channel.look_up(letter(case))
        return
    assert isinstance(await case.channel.look_up(letter(case)), Absent)
    await case.channel.send(letter(case))
    assert isinstance(await case.channel.look_up(letter(case)), Accepted)
    other = replace(letter(case), key="message:8:send", rendered=replace(letter(case).rendered, text="other"))
    assert isinstance(await case.channel.look_up(other), Absent)


async def test_slack_is_judged_by_its_words_and_not_by_its_status(wires, tmp_path) -> None:
    case = make("slack", wires, tmp_path)
    wires.sims.slack.archived.add("#ops")
    outcome = await case.channel.send(letter(case))
    assert isinstance(outcome, Refused)
    assert "is_archived" in outcome.reason


async def test_no_part_of_a_letter_shows_in_logs_or_reprs(wires, tmp_path) -> None:
    case = make("smtp", wires, tmp_path)
    shown = repr(letter(case))
    assert "ada@example.org" not in shown
    assert "Dear" not in shown
