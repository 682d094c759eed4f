"""Commands about organizations, keys, secrets, the audit log, erasure and invariants."""

from __future__ import annotations

import typer

from onceward.trust.commands import audit, erase, keys, organizations, secrets, sql_logins, verify


def register(cli: typer.Typer) -> None:
    for module in (organizations, keys, secrets, sql_logins, audit, erase, verify):
        module.register(cli)
