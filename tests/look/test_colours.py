"""One set of colours for everything, and the accent of an organization, which stays readable whatever it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onceward.look.colours import DARK, LIGHT, READABLE, accent_style, contrast
from onceward.messages.rendering import _layout  # pyright: ignore[reportPrivateUsage]

ROOT = Path(__file__).parents[2]
OWN = {"ticketing.css": {"--held", "--sold", "--edge"}, "style.css": {"--c"}}
"""Colours that only one app has, the states of seats; and the colour of one line in a chart."""


def test_contrast_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("accent", ["#ffff00", "#000000", "#ffffff", "#2456cf", "#ff0000", "#888888"])
def test_any_accent_is_readable_in_both_themes(accent: str) -> None:
    themes = re.findall(r"--accent: (#\w+); --accent-ink: (#\w+);", accent_style(accent))
    assert len(themes) == 3
    for theme, (shown, ink) in zip((LIGHT, DARK, DARK), themes, strict=True):
        assert contrast(shown, theme["surface"]) >= READABLE
        assert contrast(shown, theme["bg"]) >= READABLE
        assert contrast(ink, shown) >= READABLE


def test_both_themes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert accent_style("") == ""


def test_no_other_stylesheet_declares_colours() -> None:
    for path in [*ROOT.glob("apps/onceward_apps/*/static/*.css"), *ROOT.glob("onceward/**/*.css")]:
        if path.name != "look.css":
            declared = set(re.findall(r"[{;\s](--[a-z-]+):", path.read_text()))
            assert declared <= OWN.get(path.name, set()), path.name


def test_mails_have_the_same_colours() -> None:
    used = set(re.findall(r"#[0-9a-f]{6}", _layout()))
    assert used <= {*LIGHT.values(), *DARK.values()}
    assert LIGHT["accent"] in used
