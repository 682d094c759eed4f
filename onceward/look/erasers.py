"""The feature `look` keeps nothing about people."""

from __future__ import annotations

from onceward.trust.erase import Eraser

ERASERS: tuple[Eraser, ...] = ()

UNSEARCHED: dict[str, str] = {"onceward.organization_looks.*": "the colour and the logo of an organization"}
