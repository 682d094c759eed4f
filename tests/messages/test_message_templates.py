"""Words: every template in two languages, strict about what is missing, safe about what is given."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import onceward_apps
from onceward.db import Database
from onceward.messages import (
    BadTemplate,
    MissingVariable,
    Quiet,
    Recipient,
    Template,
    Templates,
    Window,
    plain_name,
    render,
)
from onceward.messages.hours import next_allowed, zone_or_default
from onceward.messages.kind import MessageKind
from onceward.messages.message_queue import Sending, queue
from onceward.messages.rendering import check
from onceward.messages.template_check import check_templates
from onceward.messages.template_versions import TemplateVersions
from onceward.messages.templates import fallbacks, read_folder
from onceward.work import PayloadInvalid

TEMPLATES = Path(__file__).parent / "templates"

APPS = Path(onceward_apps.__file__).parent
FOLDERS = [TEMPLATES, *(path for path in APPS.glob("*/templates") if path.is_dir())]
ALL = [template for template in Templates(FOLDERS) if template.sample or template.name == "office-hours"]
UTC_ZONE = ZoneInfo("UTC")


@pytest.mark.parametrize("template", ALL, ids=lambda template: template.name)
def test_every_template_renders_in_two_languages(template: Template) -> None:
    assert len(template.locales) >= 2, f"{template.name} exists in {list(template.locales)} only"
    check(template)
    for locale in template.locales:
        for channel in ("email", "sms", "slack", "whatsapp"):
            rendered = render(template, template.sample, locale=locale, channel=channel)
            for url in re.findall(r"https?://\S+", rendered.text if channel == "email" else ""):
                assert f'href="{url.rstrip(".,")}"' in rendered.html, f"write {{{{ ...|link }}}} for {url}"
            assert rendered.locale == locale
            assert rendered.subject
            assert rendered.text


def test_languages_fall_back_from_region_to_language_to_default() -> None:
    assert fallbacks("pt-BR", "en-GB") == ["pt-BR", "pt", "en-GB", "en"]
    hello = read_folder(TEMPLATES / "hello")
    assert render(hello, {"name": "A"}, locale="pt-BR").subject == "Olá A"
    assert render(hello, {"name": "A"}, locale="fr").subject == "Hello A"


def test_money_and_dates_are_written_as_people_write_them() -> None:
    order = read_folder(TEMPLATES / "patient")
    english = render(order, order.sample, locale="en", zone=ZoneInfo("Asia/Tokyo"))
    brazilian = render(order, order.sample, locale="pt-BR", zone=ZoneInfo("America/Sao_Paulo"))
    assert english.text == "Total R$1,990.90 on May 2, 2026."
    assert brazilian.text == "Total R$\xa01.990,90 em 1 de maio de 2026."
    yen = {**order.sample, "currency": "JPY", "total": 500}
    assert "¥500 " in render(order, yen, locale="en").text


def test_values_are_escaped_in_html_and_left_alone_in_text() -> None:
    rendered = render(read_folder(TEMPLATES / "hello"), {"name": "<b>&"}, locale="en")
    assert "Dear <b>&," in rendered.text
    assert "Dear &lt;b&gt;&amp;," in rendered.html
    assert "<b>" not in rendered.html


def test_only_urls_of_the_template_and_those_marked_as_ours_become_links() -> None:
    words = "Hello {{ name }}, see https://ours.example/help.\n\n{{ order_url|link }}\n{{ note }}"
    template = Template("x", {"en": {"subject": "s", "text": words}})
    ours = "https://ours.example/o?a=1&b=2"
    data = {"name": "https://evil.example/pay", "note": f"www.evil.example {ours}.evil.example", "order_url": ours}
    html = render(template, data, locale="en").html
    assert re.findall(r'href="([^"]*)"', html) == ["https://ours.example/help", ours.replace("&", "&amp;")]
    with pytest.raises(PayloadInvalid, match="must start with https"):
        render(template, {**data, "order_url": "javascript:alert(1)"}, locale="en")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("Ada Lovelace", "Ada Lovelace"),
        ("J.R.R. Tolkien", "J. R. R. Tolkien"),
        ("Anne-Marie O'Neil, Jr.", "Anne-Marie O'Neil, Jr."),
        ("Ada https://evil.example/x?y now", "Ada now"),
        ("pay at www.evil.example", "pay at"),
        ("evil.example/pay", ""),
        ("evil.example", "evil. example"),
        ("a@evil.example", "a evil. example"),
        ("evil\u3002example", "evil. example"),
        ("Ada\r\nBcc: x\u202e", "Ada Bcc: x"),
        ("x" * 500, "x" * 80),
    ],
)
def test_the_name_of_a_stranger_contains_no_link(given: str, kept: str) -> None:
    assert plain_name(given) == kept
    assert plain_name(kept) == kept


def test_a_missing_variable_is_named_with_its_template() -> None:
    with pytest.raises(MissingVariable, match=r"'hello' \(en\): 'name' is undefined"):
        render(read_folder(TEMPLATES / "hello"), {}, locale="en")


@pytest.mark.parametrize(
    "source",
    ["{{ ''.__class__.__mro__ }}", "{{ name.__init__.__globals__ }}", "{% for a in range(10**9) %}{% endfor %}"],
)
def test_a_template_cannot_leave_its_sandbox(source: str) -> None:
    with pytest.raises(PayloadInvalid):
        render(Template("bad", {"en": {"subject": "x", "text": source}}), {"name": "x"}, locale="en")


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"en.txt": "no subject"}, "Subject"),
        ({"en.html": "<p>"}, "en.txt"),
        ({"en.txt": "Subject: a\n\nb", "en.fax.txt": "c"}, "fax"),
        ({"en.txt": "Subject: a\n\nb", "template.toml": 'policy = "eager"'}, "eager"),
        ({"en.txt": "Subject: a\n\nb", "template.toml": 'window = { from = "9" }'}, "window"),
    ],
)
def test_a_bad_folder_is_refused_by_name(tmp_path: Path, files: dict[str, str], named: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BadTemplate, match=named):
        read_folder(tmp_path)


def test_the_version_changes_with_the_words_and_only_with_them(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("Subject: a\n\nb")
    first = read_folder(tmp_path).version
    (tmp_path / "sample.json").write_text("{}")
    assert read_folder(tmp_path).version == first
    (tmp_path / "en.txt").write_text("Subject: a\n\nc")
    assert read_folder(tmp_path).version != first


# -- hours ----------------------------------------------------------------------------------------------------------


def test_a_missing_or_unknown_zone_is_the_default_zone() -> None:
    assert zone_or_default(None, "Europe/Berlin").key == "Europe/Berlin"
    assert zone_or_default("Nowhere/Land", "Europe/Berlin").key == "Europe/Berlin"


def test_a_window_opens_on_the_next_working_day() -> None:
    window = Window.parse({"from": "09:00", "to": "17:00", "days": ["mon", "tue", "wed", "thu", "fri"]})
    friday_evening = datetime(2026, 5, 1, 16, 0, tzinfo=UTC)
    opened = next_allowed(friday_evening, ZoneInfo("Europe/Berlin"), quiet=None, window=window)
    assert opened == datetime(2026, 5, 4, 7, 0, tzinfo=UTC)


ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]


@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
    st.sampled_from(ZONES),
    st.times(),
    st.times(),
    st.booleans(),
)
def test_the_time_found_is_allowed_and_not_in_the_past(now, zone, start, end, with_window) -> None:
    where = ZoneInfo(zone)
    moment = now.replace(tzinfo=UTC)
    quiet = Quiet(start.replace(second=0, microsecond=0), end.replace(second=0, microsecond=0))
    window = Window(time(6), time(23)) if with_window else None
    found = next_allowed(moment, where, quiet=quiet, window=window)
    local = (found or moment).astimezone(where)
    assert not quiet.covers(local.time())
    excluded = quiet.covers(time(6)) and quiet.covers(time(22, 59)) and not time(6) < quiet.end < time(23)
    assert window is None or window.allows(local) or excluded
    assert found is None or moment < found <= moment + timedelta(hours=25)


async def test_no_organization_puts_a_text_in_the_place_of_anothers(db: Database) -> None:
    """The version of a text is known before it is first used: the first sender must not decide what others send."""
    template = Template("hello", {"en": {"subject": "Hello", "text": "Hello {{ name }}"}})
    keep = "insert into onceward.templates (organization_id, name, version, content) values ($1, $2, $3, $4)"
    forged = {"locales": {"en": {"subject": "Hello", "text": "Send your money elsewhere"}}, "options": {}}
    mine, theirs = uuid4(), uuid4()
    async with db.transaction(organization=mine) as tx:
        await tx.execute(keep, mine, "hello", template.version, forged)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(organization=mine) as tx:
            await tx.execute(keep, theirs, "hello", template.version, forged)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with db.transaction(organization=mine) as tx:
            await tx.execute("update onceward.templates set content = '{}'")
    async with db.transaction(organization=theirs) as tx:
        sending = Sending(to=Recipient(email="ada@example.org"), key="k", data={"name": "Ada"})
        [queued] = await queue(tx, template, [sending])
    versions = TemplateVersions(db, Templates())
    async with db.acquire() as conn:
        message = (await MessageKind().load(conn, [queued.id]))[queued.id]
    assert (await versions.of(message)).locales == template.locales


def test_quiet_hours_that_end_in_the_repeated_hour_of_autumn_end_the_same_night() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    quiet = Quiet.parse("22:00-02:30")
    # On 25 October 2026 the clock goes back from 03:00 to 02:00, which is 01:00 in UTC.
    for now, expected in (("00:10", "00:30"), ("01:10", "01:30"), ("01:29", "01:30")):
        moment = datetime.fromisoformat(f"2026-10-25T{now}:00+00:00")
        found = next_allowed(moment, berlin, quiet=quiet, window=None)
        assert found == datetime.fromisoformat(f"2026-10-25T{expected}:00+00:00")
    opened = next_allowed(
        datetime(2026, 10, 25, 0, 50, tzinfo=UTC), berlin, quiet=None, window=Window(time(2, 30), time(2, 45))
    )
    assert opened == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def test_quiet_hours_that_exclude_the_window_of_a_template_win_over_it() -> None:
    window = Window(time(9), time(17))
    quiet = Quiet.parse("08:00-18:00")
    noon = datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert next_allowed(noon, UTC_ZONE, quiet=quiet, window=window) == datetime(2026, 5, 4, 18, tzinfo=UTC)
    assert next_allowed(noon.replace(hour=20), UTC_ZONE, quiet=quiet, window=window) is None


def test_a_missing_translation_or_variable_is_an_error_at_the_start(tmp_path: Path) -> None:
    for name, files in {
        "greeting": {"en.txt": "Subject: Hi\n\nHi {{ name }}", "pt.txt": "Subject: Oi\n\nOi {{ nome }}"},
        "farewell": {"en.txt": "Subject: Bye\n\nBye", "en.sms.txt": "Bye {{ when|date }}"},
    }.items():
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
        (tmp_path / name / "sample.json").write_text('{"name": "Ada"}')
    with pytest.raises(BadTemplate) as caught:
        check_templates(Templates([tmp_path]))
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert f"'farewell' is missing in pt: create {tmp_path / 'farewell' / 'pt.txt'}" in lines[0]
    assert "'farewell' (en): 'when' is undefined (channel sms" in lines[1]
    assert "'greeting' (pt): 'nome' is undefined" in lines[2]
    for name in ("greeting", "farewell"):
        (tmp_path / name / "sample.json").unlink()
    (tmp_path / "farewell" / "pt.txt").write_text("Subject: Tchau\n\nTchau")
    with pytest.raises(BadTemplate, match=r"'greeting' \(en\) does not use nome"):
        check_templates(Templates([tmp_path]))
