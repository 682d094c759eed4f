"""The colours of `look.css` by name, and the accent of an organization, made readable on them."""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).parent / "static"
READABLE = 4.5
"""The contrast that WCAG 2.2 AA asks for between text and what is behind it."""
STEPS = 25


def _read(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


_SOURCE = (STATIC / "look.css").read_text(encoding="utf-8")
LIGHT = _read(_SOURCE[_SOURCE.index(":root {") : _SOURCE.index("@media")])
"""The colours of the light theme by name: `LIGHT["accent"]`."""
DARK = _read(_SOURCE[_SOURCE.index(':root[data-theme="dark"]') :])
"""The colours of the dark theme by name."""


def rgb(colour: str) -> tuple[int, int, int]:
    """Return the three parts of `#2456cf`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as WCAG defines it: 1 to 21."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def readable(colour: str, *behind: str, towards: str) -> str:
    """Return the colour, mixed with black or white only as far as it needs to be read on each of these."""
    for step in range(STEPS + 1):
        mixed = _mixed(colour, towards, step / STEPS)
        if all(contrast(mixed, each) >= READABLE for each in behind):
            return mixed
    return towards


def accent_style(accent: str) -> str:
    """Return the rules that replace the accent in both themes. An empty accent keeps the usual one."""
    if not accent:
        return ""
    dark = _rules(accent, DARK, towards="#ffffff")
    return (
        f":root {{ {_rules(accent, LIGHT, towards='#000000')} }}\n"
        f'@media (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
    )


def _rules(accent: str, theme: dict[str, str], *, towards: str) -> str:
    shown = readable(accent, theme["bg"], theme["surface"], towards=towards)
    ink = max(("#ffffff", "#0d1526"), key=lambda each: contrast(each, shown))
    soft = _mixed(shown, theme["surface"], 0.88)
    return f"--accent: {shown}; --accent-ink: {ink}; --accent-soft: {soft};"


def _mixed(colour: str, other: str, share: float) -> str:
    parts = (round(a + (b - a) * share) for a, b in zip(rgb(colour), rgb(other), strict=True))
    return "#" + "".join(f"{each:02x}" for each in parts)


def _luminance(colour: str) -> float:
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in (part / 255 for part in rgb(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
