"""The sale of tickets, measured by the app that makes it: the engine does not know its apps."""

from __future__ import annotations

from importlib import import_module

from onceward.bench.measure import Measurement, Size

CASES = ("sale", "webhook-p95", "contended")


async def run(size: Size, url: str, only: str | None = None) -> list[Measurement]:
    """Cases `sale`, `webhook-p95` and `contended`; see `onceward_apps/ticketing/bench.py`."""
    return await import_module("onceward_apps.ticketing.bench").run(size, url, only=only)
