"""Pages in another language: every text of the desk kit and of the desks has a Portuguese one, and data are left
alone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import onceward.desk
import onceward.trust
import onceward.web.dashboard
from onceward.desk.desk import DESKS
from onceward.look.languages import Catalogue, Languages
from onceward_apps.start_page import PEOPLE
from tests.look.texts import texts_of_desk, texts_of_template

PT = Languages(()).catalogues["pt"]
FOLDERS = [Path(str(each.__file__)).parent for each in (onceward.desk, onceward.trust, onceward.web.dashboard)]


def test_texts_are_replaced_and_data_tags_and_code_are_not() -> None:
    texts = Catalogue(
        "pt",
        {
            "Home": "Início",
            "{} ago": "há {}",
            "All {}": "Tudo: {}",
            "books": "livros",
            "A & B": "C & D",
            "{n} of {n}": "{n} de {n}",
        },
    )
    page = (
        '<!doctype html>\n<html lang="en"><h1 title="Home"> Home </h1><p translate="no">Home <b>Home</b></p><code>Home</code>'
        "<script>Home < 3</script><i>3 min ago</i><i>All books</i><i>A &amp; B</i><i>unknown</i>"
        "<i>3 of 1,200</i><i>Page of the shop</i>"
    )
    assert texts.page(page) == (
        '<!doctype html>\n<html lang="pt"><h1 title="Início"> Início </h1><p translate="no">Home <b>Home</b></p><code>Home</code>'
        "<script>Home < 3</script><i>há 3 min</i><i>Tudo: livros</i><i>C &amp; D</i><i>unknown</i>"
        "<i>3 de 1,200</i><i>Page of the shop</i>"
    )


def test_what_a_value_contains_cannot_become_a_tag() -> None:
    texts = Catalogue("pt", {"{} ago": "há {}"})
    assert texts.page("<i>&lt;b&gt; ago</i>") == "<i>há &lt;b&gt;</i>"
    assert texts.page('<i title="&quot;&gt; ago"></i>') == '<i title="há &quot;&gt;"></i>'


@pytest.mark.parametrize(
    ("cookie", "accepted", "language"),
    [("", "pt-BR,pt;q=0.9", "pt"), ("en", "pt-BR", "en"), ("xx", "", "en"), ("", "ja, pt", "pt"), ("pt", "en", "pt")],
)
def test_the_chosen_language_comes_before_that_of_the_browser(cookie: str, accepted: str, language: str) -> None:
    assert Languages(()).chosen(cookie, accepted) == language


def test_a_file_adds_a_language(tmp_path: Path) -> None:
    (tmp_path / "de.toml").write_text('"Home" = "Start"')
    languages = Languages((tmp_path,))
    assert languages.names["de"] == "Deutsch"
    assert languages.page("<p>Home</p>", "de") == "<p>Start</p>"


def test_the_kit_is_complete_in_portuguese() -> None:
    missing = {
        text
        for folder in FOLDERS
        for path in folder.rglob("*.html")
        for text in texts_of_template(path)
        if PT.text(text) is None
    }
    assert missing == set()


@pytest.mark.parametrize("name", [*PEOPLE, "look", "payments"])
def test_desks_are_complete_in_portuguese(name: str) -> None:
    import_module(f"onceward.{name}.pages" if name in ("look", "payments") else f"onceward_apps.{name}.desk")
    desk = DESKS[name]
    texts = Languages(() if desk.languages is None else (desk.languages,)).catalogues["pt"]
    declared = {text for text in texts_of_desk(desk) if any(map(str.isalpha, text))}
    missing = {text for text in declared if texts.text(text) is None}
    assert missing == set()
