"""Write docs/settings.md, docs/cli.md, docs/sqlstates.md, docs/metrics.md and docs/alerts.yml from the code: `make docs`. A test compares them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import typer.main
from pydantic import SecretStr

from onceward.cli.alerts import alert_rules
from onceward.cli.commands import build
from onceward.cli.exits import MEANING
from onceward.context import Context
from onceward.db import Database
from onceward.db.servers import Servers
from onceward.engine import Engine
from onceward.feature import Role, resolve
from onceward.health import Health
from onceward.runtime import FEATURES
from onceward.settings import Settings, all_settings
from onceward.telemetry.metrics import declared
from onceward.trust.secrets import secret_box
from onceward.web.exposure import ExposedRoute
from onceward.web.parts import route_table
from onceward_apps.all import app

HERE = Path(__file__).parent
ALL = FEATURES.plus(app.features())
"""The engine with the bundled apps."""


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Environment variables, read at start. A name that begins with `ONCEWARD_` and is not in this table is warned",
        "about; a value that does not fit stops the start with exit code 3. Lists are separated by commas. Secrets are",
        "never printed. `onceward settings` shows the values in force.",
        "",
        "| name | default | meaning |",
        "|---|---|---|",
    ]
    for row in all_settings(ALL.settings):
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.name}`{' (secret)' if row.secret else ''} | {default} | {row.description} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    lines = [
        "# Commands",
        "",
        "`onceward COMMAND --help` says the same. Answers go to stdout, logs and errors to stderr; `--json` prints one JSON",
        "document. Where an app can be given it is written `pkg.module:app`, found from the current directory; `ONCEWARD_APP`",
        "names the one to use where none is given, and adds the app's own commands (those of the bundled apps are listed too).",
        "In the folder of a project ([starting](starting.md)) `app` below `[tool.onceward]` in `pyproject.toml` does the same.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code.value} | {meaning} |" for code, meaning in MEANING.items()),
    ]
    for path, command in _commands("onceward", typer.main.get_command(build(ALL))):
        lines += ["", f"## `{path}`", "", (command.help or "").strip()]
        parameters = [row for row in (_parameter(each) for each in command.params) if row]
        if parameters:
            lines += ["", "| | |", "|---|---|", *parameters]
    return "\n".join(lines) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _commands(f"{path} {name}", child)


def _parameter(parameter: Any) -> str:
    if parameter.name == "help" or not getattr(parameter, "help", None):
        return ""
    option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if option else parameter.metavar or parameter.name.upper()
    return f"| `{name}` | {parameter.help} |"


def sqlstates_page() -> str:
    lines = [
        "# SQLSTATEs",
        "",
        "The codes that Onceward's own SQL raises, for handlers and for clients in other languages. Each has one meaning. A code that",
        "nobody catches fails the statement and its transaction like any other error; in a handler it counts as a failed attempt.",
        "",
        "| code | meaning | raised by | caught by |",
        "|---|---|---|---|",
    ]
    for state in sorted((each for states in ALL.load("sqlstates") for each in states), key=lambda each: each.code):
        raised = ", ".join(f"`{path}`" for path in files_that_use(state.code, ".sql"))
        caught = ", ".join(f"`{path}`" for path in files_that_use(state.code, ".py"))
        lines.append(f"| `{state.code}` | {state.meaning} | {raised} | {caught} |")
    return "\n".join(lines) + "\n"


def files_that_use(code: str, suffix: str) -> list[str]:
    """Return the files that contain a SQLSTATE, or the name of the constant that a `sqlstates.py` gives it."""
    root = HERE.parent
    files = [path for top in ("onceward", "onceward_apps") for path in (root / top).rglob(f"*{suffix}")]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    names = {code}
    for path, text in texts.items():
        if path.name == "sqlstates.py":
            names |= set(re.findall(rf'^(\w+) = "{code}"$', text, re.MULTILINE))
    users = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
    return sorted(
        str(path.relative_to(root))
        for path, text in texts.items()
        if path.name != "sqlstates.py" and users.search(text)
    )


def metrics_page() -> str:
    lines = [
        "# Metrics",
        "",
        "`GET /metrics`, Prometheus text format. Label values are closed sets or names from code and configuration, never",
        "texts from outside. [Alert rules](alerts.yml) for Prometheus use them; an app's metrics are there where it runs.",
        "",
        "`onceward_queue_depth` and `onceward_queue_oldest_due_seconds` are read every 15 seconds. They are exact up to 10,000 rows of",
        "each queue and state (10,000 dead letters of all queues together) and never larger, so that they cost the same with ten rows",
        "as with ten million: a depth of 10,000 means 10,000 or more. Of a queue with lanes, the oldest work is that of the first 10,000",
        "rows in the order of the lanes.",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    ALL.load("metrics")
    for metric in declared():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"


def growth_page() -> str:
    """Return the page that says for each table of the engine and of the bundled apps what bounds it."""
    lines = [
        "# What bounds each table",
        "",
        "Each feature and app declares in `growth.py` what deletes the rows of its tables and when, or why they are kept. The names in",
        "backquotes are background loops and schedules. A test compares the declarations with the database. See [database](database.md).",
        "",
        "| table | growth |",
        "|---|---|",
    ]
    for growth in ALL.load("growth"):
        lines += [f"| `{table}` | {text} |" for table, text in growth.items()]
    return "\n".join(lines) + "\n"


def security_page() -> str:
    """Return docs/security.md with the current table of routes between its two markers."""
    page = (HERE / "security.md").read_text(encoding="utf-8")
    before, begin, rest = page.partition("<!-- routes: begin -->\n")
    _, end, after = rest.partition("<!-- routes: end -->")
    rows = ["| route | credential | limit | can cause |", "|---|---|---|---|"]
    for route in asyncio.run(_routes()):
        causes = ", ".join(route.causes)
        rows.append(f"| `{route.method} {route.path}` | {route.credential} | {route.limit} | {causes} |")
    return before + begin + "\n".join(rows) + "\n" + end + after


async def _routes() -> list[ExposedRoute]:
    """Return the routes of a web process with the bundled apps. Nothing connects to the database."""
    url = "postgresql://nowhere.invalid/none"
    settings = Settings(
        database_url=SecretStr(url),
        secret_key=SecretStr("k" * 32),
        oidc_issuer="https://accounts.example.com",
        oidc_client_id="onceward",
    )
    pool = asyncpg.create_pool(url, min_size=0)
    database = Database(pool, Servers(url, role=None), pgbouncer=False)
    box = secret_box(settings)
    roles: frozenset[Role] = frozenset({"web"})
    context = Context(
        app=app,
        settings=settings,
        database=database,
        engine=Engine(database, app.registry, event_types=app.event_types, box=box),
        features=ALL,
        roles=roles,
        health=Health(),
        box=box,
    )
    for part in ALL.parts(roles):
        if part.name != "web server" and (made := resolve(part.make)(context)) is not None:
            context.add(made)
    return route_table(context)


PAGES = {
    "security.md": security_page,
    "growth.md": growth_page,
    "settings.md": settings_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
    "sqlstates.md": sqlstates_page,
    "alerts.yml": lambda: alert_rules(ALL),
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
