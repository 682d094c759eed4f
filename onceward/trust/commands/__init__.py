"""Commands about organizations, keys, secrets, the audit log, causes, erasure and invariants."""

from __future__ import annotations

import typer

from onceward.trust.commands import audit, erase, keys, organizations, secrets, trace, verify


def register(cli: typer.Typer) -> None:
    for module in (organizations, keys, secrets, audit, trace, erase, verify):
        module.register(cli)
