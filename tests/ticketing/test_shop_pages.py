"""The pages of the shop: languages, the organizer's page, the frame on another site, cancelling by the buyer."""

from __future__ import annotations

import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from onceward.messages.rendering import render
from onceward.messages.templates import read_folder
from onceward_apps.ticketing import after_sale, event_changes
from onceward_apps.ticketing.app import HERE
from onceward_apps.ticketing.errors import Invalid, NotRefundable
from onceward_apps.ticketing.shop_setup import set_shop
from onceward_apps.ticketing.store import views
from tests.ticketing.office import Office

LANGUAGES = sorted((HERE / "pages" / "languages").glob("*.toml"))
TEXT = re.compile(r'\bt\("((?:[^"\\]|\\.)*)"')


def texts_of(path: Path) -> dict[str, str]:
    return tomllib.loads(path.read_text())


@pytest.mark.acceptance("languages")
@pytest.mark.parametrize("path", LANGUAGES, ids=lambda path: path.stem)
def test_every_text_of_the_scripts_has_a_translation_with_the_same_places(path: Path) -> None:
    texts = texts_of(path)
    shown = {text for file in (HERE / "static").glob("*.js") for text in TEXT.findall(file.read_text())}
    assert len(shown) > 60
    assert sorted(shown - set(texts)) == []
    assert [key for key, value in texts.items() if key.count("{}") != value.count("{}") or not value] == []


@pytest.mark.acceptance("languages")
@pytest.mark.parametrize("folder", sorted((HERE / "templates").iterdir()), ids=lambda folder: folder.name)
def test_each_mail_is_in_the_languages_of_the_pages_and_says_the_same(folder: Path) -> None:
    template = read_folder(folder)
    assert set(template.locales) == {"en", *(file.stem for file in LANGUAGES)}
    english = set(re.findall(r"\{\{.*?\}\}", "".join(template.locales["en"].values())))
    for locale, parts in template.locales.items():
        assert set(re.findall(r"\{\{.*?\}\}", "".join(parts.values()))) == english, locale
        rendered = render(template, template.sample, locale=locale)
        assert rendered.locale == locale
        assert len(rendered.text.splitlines()) == len(render(template, template.sample, locale="en").text.splitlines())


@pytest.mark.acceptance("languages")
def test_the_pages_are_in_the_same_languages_with_the_same_texts() -> None:
    assert [path.stem for path in LANGUAGES] == ["af", "de", "pt"]
    first, *others = (set(texts_of(path)) for path in LANGUAGES)
    assert all(other == first for other in others)


@pytest.mark.acceptance("buyer-cancels")
async def test_a_buyer_cancels_until_the_hour_that_the_organizer_allows(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    page = await office.open_page(show, checkout)
    office.stripe.pay(page)
    await office.deliver()
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(NotRefundable, match="cannot be cancelled here"):
            await after_sale.take_back(tx, checkout["id"])
        await event_changes.edit(tx, show.id, actor="test", cancel_hours=24 * 30 + 1)
        assert not after_sale.may_take_back(await views.order(tx, checkout["id"]))  # that was an hour ago
        await event_changes.edit(tx, show.id, actor="test", cancel_hours=48)
        order = await views.order(tx, checkout["id"])
        assert after_sale.take_back_until(order) == order["starts_at"] - timedelta(hours=48)
        made = await after_sale.take_back(tx, checkout["id"])
    assert made is not None
    assert made.amount.amount == checkout["total_cents"]
    await office.drain()
    await office.deliver()
    assert await office.status(checkout) == "refunded"
    assert await office.tickets(checkout) == []
    await office.assert_sound()


@pytest.mark.acceptance("embed")
async def test_only_origins_can_be_named_as_sites_that_show_the_shop(office: Office) -> None:
    show = await office.show()
    async with office.engine.transaction(organization=show.organization) as tx:
        more = {"about": "", "bank_account": "", "transfer_days": 7, "actor": "test"}
        for wrong in ("https://a.example/x", "*", "https://*.example", "'self'", "http://a.example", "https://a b"):
            with pytest.raises(Invalid, match="is not an origin"):
                await set_shop(tx, sites=[wrong], **more)  # pyright: ignore[reportArgumentType]
        assert await set_shop(tx, sites=["https://Hall.example/", "https://hall.example"], **more)  # pyright: ignore[reportArgumentType]
        assert not await set_shop(tx, sites=["https://hall.example"], **more)  # pyright: ignore[reportArgumentType]
