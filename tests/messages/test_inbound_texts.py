"""STOP, START and HELP work on every text channel without a line in the app. An app may say that it does it itself."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Event, Onceward, Tx
from onceward.messages.recipient import Recipient
from onceward.messages.replies import WORDS
from onceward.messages.templates import Templates
from onceward.testing import drain
from onceward.trust import create_organization
from tests.messages.test_delivery_reports import receiving

PERSON = "+5511987654321"
WITHOUT_NINTH = "551187654321"
"""How WhatsApp writes the same number."""


async def whatsapp(here: Any, inbox: Any, text: str, *, to: str = "1", source: str = "whatsapp") -> Any:
    message = {"from": WITHOUT_NINTH, "id": f"wamid.{text}", "type": "text", "text": {"body": text}}
    value = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": to}, "messages": [message]}
    answer = await inbox.post(
        {"entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}]}, source=source
    )
    assert answer.status == 200
    await drain(here.engine)
    return await here.db.fetchval("select result from onceward.webhook_events order by seq desc limit 1")


async def news(here: Any, key: str, *, channel: str = "whatsapp", organization: Any = None, to: Any = PERSON) -> str:
    """Send bulk news, and return what became of them."""
    async with here.engine.transaction(organization=organization) as tx:
        id = (await tx.send("news", to=to, channel=channel, key=key, data={"name": "Ana"})).id
    await drain(here.engine)
    row = await here.message(id)
    return row["reason"] or row["status"]


async def answers(here: Any) -> list[tuple[str, str]]:
    rows = await here.db.fetch(
        "select template, locale, status from onceward.messages where template like 'reply-%' order by id"
    )
    assert {row["status"] for row in rows} <= {"success"}
    return [(row["template"], row["locale"]) for row in rows]


async def test_whatsapp_stop_start_and_help_are_obeyed_and_answered_in_the_language_of_the_word(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with receiving(here) as inbox:
        assert await news(here, "1") == "success"
        assert await whatsapp(here, inbox, "Parar, por favor") == {"reply": "stop"}
        assert await news(here, "2") == "opted_out"
        assert await whatsapp(here, inbox, "hello") == {"reply": None}
        assert await whatsapp(here, inbox, "Hilfe") == {"reply": "help"}
        assert await news(here, "3") == "opted_out"
        assert await whatsapp(here, inbox, "START") == {"reply": "start"}
        assert await news(here, "4") == "success"
    assert await answers(here) == [("reply-stop", "pt"), ("reply-help", "de"), ("reply-start", None)]
    texts = [each["text"]["body"] for each in here.sims.whatsapp.messages if each["type"] == "text"]
    assert texts.pop().startswith("What is new")  # the 24 hours are open: it goes as free text
    assert [text.split(".")[0] for text in texts] == [
        "Você não receberá mais mensagens nossas aqui",
        "Diese Nummer sendet Ihnen Nachrichten, die Sie gewünscht haben",
        "You get our messages again",
    ]
    rows = await here.db.fetch(
        "select recipient, decision, channel, source, wording from onceward.consents order by id"
    )
    assert tuple(rows[0].values()) == (PERSON, "opt_out", "whatsapp", "reply", "Parar, por favor")
    assert rows[-1]["decision"] == "opt_in"


async def test_twilio_stop_is_obeyed_and_what_twilio_answers_is_not_answered_twice(office, wires) -> None:
    here = await office(wires.sms)
    async with receiving(here, "twilio") as inbox:
        for n, (text, expected) in enumerate((("STOP", "opted_out"), ("start", "success"), ("baja", "opted_out"))):
            await inbox.trigger("message.received", source="twilio", MessageSid=f"SM{n}", From=PERSON, Body=text)
            await drain(here.engine)
            assert await news(here, str(n), channel="sms") == expected
        await inbox.trigger("message.received", source="twilio", MessageSid="SM8", From=PERSON, Body="help")
        await inbox.trigger(
            "message.received", source="twilio", MessageSid="SM9", From=PERSON, Body="ayuda", OptOutType="HELP"
        )
        await drain(here.engine)
    assert await answers(here) == [("reply-stop", "es")]


@pytest.mark.parametrize("own", [True, False])
async def test_stop_ends_what_leaves_through_the_number_that_was_written_to(office, wires, own: bool) -> None:
    """A number that an organization has proven stops that organization. The installation's stops everybody's there."""
    here = await office(wires.whatsapp)
    async with here.db.transaction(role="engine") as tx:
        a, b = [(await create_organization(tx, slug, actor="t")).organization_id for slug in "ab"]
        if own:
            await tx.execute(
                "insert into onceward.senders (kind, identifier, organization_id, proof) values ('whatsapp', '77', $1, 'account')",
                a,
            )
    async with receiving(here) as inbox:
        assert await whatsapp(here, inbox, "STOP", to="77") == {"reply": "stop"}
        assert await news(here, "a", organization=a) == "opted_out"
        to = Recipient(ref="ana", whatsapp=PERSON)
        assert await news(here, "b", organization=b, to=to) == ("success" if own else "opted_out")
        installations = await here.db.fetchval("select count(*) from onceward.opt_outs where organization_id is null")
        assert installations == (0 if own else 2)
        await whatsapp(here, inbox, "START", to="77")
        assert await news(here, "a2", organization=a) == "success"


@pytest.mark.parametrize("itself", [False, True])
async def test_an_app_with_a_handler_obeys_stop_unless_it_says_that_it_does_so_itself(
    office, wires, itself: bool
) -> None:
    here = await office(wires.whatsapp)
    app: Onceward = here.app

    @app.on("whatsapp", "message.text", handles_replies=itself)
    async def received(event: Event[Any], tx: Tx) -> dict[str, str]:
        return {"seen": "yes"}

    async with receiving(here) as inbox:
        assert await whatsapp(here, inbox, "STOP") == {"seen": "yes"}
        assert await news(here, "1") == ("success" if itself else "opted_out")


def test_each_language_of_the_words_has_its_answers() -> None:
    templates = Templates()
    for reply in ("stop", "start", "help"):
        assert set(templates.get(f"reply-{reply}").locales) == set(WORDS)
