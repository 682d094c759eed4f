"""Which commands there are.

To add one: write `onceward/cli/<noun>.py` with `def register(cli: typer.Typer) -> None`, which adds a command
(`cli.command("noun")(function)`) or a group (`cli.add_typer(group, name="noun")`), and put its name into `NOUNS` below.
Listings take `--json` (`JsonOption`) and print through `rendering.listing`; whoever needs the database opens it with
`session.opened(...)`; failures are raised as exceptions, `exits.py` turns them into codes. Import heavy things inside
the functions: `onceward --help` must stay quick. `make docs` then rewrites docs/cli.md, and a test says if it was not.
"""

from __future__ import annotations

from importlib import import_module

import typer

NOUNS = (
    "running",
    "migrate",
    "doctor",
    "db",
    "settings",
    "version",
    "organizations",
    "keys",
    "secrets",
    "audit",
    "trace",
    "erase",
    "verify",
    "sources",
    "events",
    "trigger",
    "work",
    "dead_letters",
    "cron",
    "messages",
    "templates",
    "endpoints",
    "deliveries",
    "listen",
    "workflows",
    "limits",
    "ledger",
    "live",
    "ticketing",
    "bench",
)


def build() -> typer.Typer:
    """The whole command line."""
    cli = typer.Typer(
        name="onceward",
        help="Webhooks, jobs, messages, schedules and workflows on PostgreSQL: every effect exactly once.",
        epilog="Settings are environment variables: `onceward settings`. Trouble: `onceward doctor`.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for noun in NOUNS:
        import_module(f"onceward.cli.{noun}").register(cli)
    return cli
