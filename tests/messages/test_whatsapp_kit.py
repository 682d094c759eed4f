"""The approved texts of WhatsApp: what is submitted, what is sent for it, and what Meta reports about it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from onceward.cli.commands import build
from onceward.db import Database
from onceward.integrations.whatsapp import WhatsAppSimulator
from onceward.integrations.whatsapp.kit import needed_templates
from onceward.messages import BadTemplate, Templates
from onceward.messages.templates import read_folder
from onceward.runtime import FEATURES
from onceward.testing import TestInbox, drain
from onceward.trust import create_organization

PHONE = "+4915112345678"
CLINIC = "onceward_apps.clinic.app:app"


def test_the_kit_numbers_the_variables_and_gives_an_example_of_each() -> None:
    folder = Path(__file__).parents[2] / "apps/onceward_apps/clinic/templates"
    needed = {each.key: each.submission for each in needed_templates(Templates([folder]))}
    body, buttons = needed["clinic_reminder", "pt_BR"]["components"]
    assert body["text"] == (
        "Mensagem de {{1}}: {{2}}, a sua consulta é em {{3}} às {{4}} (fuso horário {{5}}). Por favor confirme ou cancele."
    )
    assert body["example"] == {
        "body_text": [["Harbour Clinic", "Ann Tan", "20 de novembro de 2026", "09:00", "Asia/Singapore"]]
    }
    assert [each["text"] for each in buttons["buttons"]] == ["Confirmar", "Cancelar", "Não receber mais"]


@pytest.mark.parametrize(
    ("toml", "text", "fault"),
    [
        ("", "Hello {{ name }}.", r"en.approved.txt needs \[whatsapp\]"),
        ('[whatsapp]\nname = "a"\nlanguage = {}', "Hello {{ name }}.", "language is missing for en"),
        ('[whatsapp]\nname = "A b"\nlanguage = { en = "en" }', "Hello {{ name }}.", "name must have small letters"),
        ('[whatsapp]\nname = "a"\nlanguage = { en = "en" }', "Hello {{ name }}", "neither begin nor end"),
        ('[whatsapp]\nname = "a"\nlanguage = { en = "en" }', "Hi {{ a }} {{ b }}!", "words between"),
        ('[whatsapp]\nname = "a"\nlanguage = { en = "en" }', "Hi{% if a %}{% endif %}!", "is fixed"),
        ('[whatsapp]\nname = "a"\nlanguage = { en = "en" }', None, "en.approved.txt is missing"),
        (
            '[whatsapp]\nname = "a"\nlanguage = { en = "en" }\n[[whatsapp.buttons]]\npayload = "X"\ntext = {}',
            "Hi!",
            "text of the button 'X' is missing for en",
        ),
    ],
)
def test_what_meta_would_refuse_is_an_error_at_the_start(
    tmp_path: Path, toml: str, text: str | None, fault: str
) -> None:
    (tmp_path / "en.txt").write_text("Subject: Hello\n\nHello")
    (tmp_path / "template.toml").write_text(toml)
    if text is not None:
        (tmp_path / "en.approved.txt").write_text(text)
    with pytest.raises(BadTemplate, match=fault):
        read_folder(tmp_path)


async def command(*args: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, build(FEATURES), list(args))


async def test_check_compares_with_the_account_and_creates_what_is_missing(
    db: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with WhatsAppSimulator() as meta:
        for name, value in (
            ("DATABASE_URL", database_url),
            ("SIMULATORS", f"whatsapp={meta.url}"),
            ("WHATSAPP_ACCESS_TOKEN", "token"),
            ("WHATSAPP_PHONE_NUMBER_ID", meta.phone_number_id),
            ("WHATSAPP_BUSINESS_ACCOUNT_ID", meta.business_account_id),
        ):
            monkeypatch.setenv(f"ONCEWARD_{name}", value)
        check = ("whatsapp", "check", "--app", CLINIC, "--json")
        first = await command(*check, "--create")
        assert first.exit_code == 1, first.output
        assert {each["verdict"] for each in json.loads(first.stdout)} == {"missing"}
        assert all(each["detail"] == "submitted, PENDING" for each in json.loads(first.stdout))
        assert len(meta.templates) == 8

        for each in meta.templates:
            each["status"] = "APPROVED"
        assert (await command(*check)).exit_code == 0
        assert len(meta.templates) == 8

        meta.templates[0]["components"][0]["text"] = "Something else {{1}}."
        meta.templates[1]["status"] = "PAUSED"
        asking = next(each for each in meta.templates[3:] if len(each["components"]) > 1)
        assert asking["components"][1]["buttons"].pop()
        meta.templates[2]["status"] = "PENDING"
        later = await command(*check)
        assert sorted(each["verdict"] for each in json.loads(later.stdout)) == [
            *("different", "different", "ok", "ok", "ok", "ok", "unusable", "waiting")
        ]


async def test_a_closed_window_sends_the_approved_template_with_its_values_and_payloads(office, wires) -> None:
    here = await office(wires.whatsapp)
    meta = wires.sims.whatsapp
    meta.enforce_templates = True
    [english, _] = needed_templates(here.engine.templates)
    meta.templates.append({**english.submission, "id": "1", "status": "APPROVED"})
    id = await here.send("news", to=PHONE, channel="whatsapp", key="k1")
    await drain(here.engine)
    assert (await here.message(id))["status"] == "success"
    [sent] = meta.messages
    assert [each["text"] for each in sent["template"]["components"][0]["parameters"]] == ["Ada"]
    buttons = [each for each in sent["template"]["components"] if each["type"] == "button"]
    assert [each["parameters"][0]["payload"] for each in buttons] == ["MORE"]


async def test_meta_reports_change_the_state_and_notify_the_owner_of_the_account(office, wires) -> None:
    here = await office(wires.whatsapp)
    async with here.db.transaction(role="engine") as tx:
        owner = (await create_organization(tx, "ours", actor="test")).organization_id
        await tx.execute(
            "insert into onceward.service_states (organization_id, service, account, subject, state, is_bad, changed_at)"
            " values ($1, 'whatsapp', '7', 'account', 'known', false, '-infinity')",
            owner,
        )

    async def report(inbox: TestInbox, field: str, at: int, **value: Any) -> None:
        entry = {"id": "7", "time": at, "changes": [{"field": field, "value": value}]}
        assert (await inbox.post({"entry": [entry]}, source="whatsapp")).status == 200
        await drain(here.engine)

    about = {"message_template_name": "news_2026", "message_template_language": "en_US", "reason": "NONE"}
    async with TestInbox(here.engine, here.app) as inbox:
        await inbox.add_source("whatsapp", provider="whatsapp")
        await report(inbox, "message_template_status_update", 100, event="APPROVED", **about)
        await report(inbox, "message_template_status_update", 300, event="PAUSED", **about)
        await report(inbox, "message_template_status_update", 200, event="APPROVED", **about)  # late: changes nothing
        await report(inbox, "phone_number_quality_update", 300, event="FLAGGED", display_phone_number="1555")
        await report(inbox, "account_update", 300, event="DISABLED_UPDATE", ban_info={"waba_ban_state": "DISABLE"})
        await report(inbox, "message_template_status_update", 400, event="APPROVED", **about)
    states = await here.db.fetch("select subject, state, organization_id from onceward.service_states order by subject")
    assert [(row["subject"], row["state"]) for row in states] == [
        ("account", "DISABLED_UPDATE"),
        ("number:1555", "FLAGGED"),
        ("template:news_2026/en_US", "APPROVED"),
    ]
    assert {row["organization_id"] for row in states} == {owner}
    notices = await here.db.fetch("select severity, title, organization_id from onceward.notices order by id")
    assert [(row["severity"], row["organization_id"]) for row in notices] == [
        *(("error", owner), ("warn", owner), ("error", owner), ("info", owner))
    ]
    assert notices[0]["title"] == "WhatsApp template news_2026 (en_US) is paused"


async def test_messages_of_a_template_wait_while_meta_says_that_it_is_paused(
    office, wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = await office(wires.whatsapp)
    meta = wires.sims.whatsapp
    for each in needed_templates(here.engine.templates):
        meta.templates.append({**each.submission, "id": each.submission["language"], "status": "APPROVED"})
    sent: list[bytes] = []
    monkeypatch.setattr(meta.webhooks, "send", lambda url, body, sign: sent.append(body))
    meta.send_webhooks_to("https://shop.example.org/webhooks/whatsapp")

    async def review(inbox: TestInbox, status: str, at: int, **reason: str) -> list[str]:
        """Let Meta change the template's status. Return the reasons of the templates that are refused then."""
        meta.review_template("news_2026", "en_US", status, **reason)
        report = json.loads(sent.pop())
        report["entry"][0]["time"] = at
        assert (await inbox.post(report, source="whatsapp")).status == 200
        await drain(here.engine)
        return [row["reason"] for row in await here.db.fetch("select reason from onceward.account_troubles")]

    async with TestInbox(here.engine, here.app) as inbox:
        await inbox.add_source("whatsapp", provider="whatsapp")
        assert await review(inbox, "PAUSED", 100, reason="LOW_QUALITY") == ["PAUSED LOW_QUALITY"]
        row = await here.db.fetchrow("select account, state, reason from onceward.service_states")
        assert tuple(row) == (meta.business_account_id, "PAUSED", "LOW_QUALITY")
        ids = [await here.send("news", to=PHONE, channel="whatsapp", key=f"k{n}") for n in range(3)]
        await drain(here.engine)
        assert {(await here.message(id))["status"] for id in ids} == {"pending"}
        assert meta.messages == [], "Meta was not asked"
        other = await here.send("news", to=PHONE, channel="whatsapp", key="pt", locale="pt-BR")
        await drain(here.engine)
        assert (await here.message(other))["status"] == "success", "only the text in English is paused"
        assert [each["template"]["language"]["code"] for each in meta.messages] == ["pt_BR"]
        assert {(await here.message(id))["reason"] for id in ids} == {
            "the template is refused in en: an operator must repair it"
        }
        assert await review(inbox, "APPROVED", 200) == []
        assert {(await here.message(id))["status"] for id in ids} == {"success"}
        assert await review(inbox, "DISABLED", 300) == ["DISABLED"]
        assert await review(inbox, "APPROVED", 250) == ["DISABLED"], "a late report changes nothing"
        assert await review(inbox, "REINSTATED", 400) == [], "no message waited"
