"""Write docs/settings.md, docs/cli.md, docs/sqlstates.md, docs/metrics.md and docs/alerts.yml from the code:
`make docs`. A test compares them."""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from textwrap import fill
from typing import Any, TypeGuard

import asyncpg
import typer.main
from pydantic import SecretStr

from onceward import __version__
from onceward.cli.alerts import alert_rules
from onceward.cli.commands import build
from onceward.cli.exits import MEANING
from onceward.context import Context
from onceward.db import Database
from onceward.db.servers import Servers
from onceward.engine import Engine
from onceward.feature import Role, resolve
from onceward.health import Health
from onceward.integration import integrations
from onceward.runtime import FEATURES
from onceward.services import callable_services
from onceward.services.contract_page import contract_page
from onceward.settings import Settings, all_settings, prefix_of
from onceward.telemetry.metrics import ALIASES, declared, describe_process
from onceward.trust.secrets import secret_box
from onceward.trust.settings import TrustSettings
from onceward.web.exposure import ExposedRoute
from onceward.web.parts import route_table
from onceward.webhooks.page import scheme_of
from onceward.webhooks.registry import PROVIDERS
from onceward.webhooks.sender import Sender
from onceward_apps.all import app

HERE = Path(__file__).parent
ALL = FEATURES.plus(app.features())
"""The engine with the apps."""


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "Environment variables, read at start. A name that begins with `ONCEWARD_` and is not on this page is warned",
        "about; a value that does not fit stops the start with exit code 3. Lists are separated by commas. Secrets are",
        "never printed. `onceward settings` shows the values in force. Each feature and app declares its own settings, in the",
        "`settings.py` of its folder; `engine` has those of the process, its logs, its database and its address.",
    ]
    owner = ""
    for row in all_settings(ALL.settings):
        if row.owner != owner:
            owner = row.owner
            lines += ["", f"## `{owner}`", "", "| name | default | meaning |", "|---|---|---|"]
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.name}`{' (secret)' if row.secret else ''} | {default} | {row.description} |")
    return "\n".join(lines) + "\n"


def cli_page() -> str:
    lines = [
        "# Commands",
        "",
        "`onceward COMMAND --help` says the same. Answers go to stdout, logs and errors to stderr; `--json` prints one JSON",
        "document. Where an app can be given it is written `pkg.module:app`, found from the current directory; `ONCEWARD_APP`",
        "names the one to use where none is given, and adds the app's own commands (those of the apps in `onceward-apps` are listed too).",
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
    files = [path for top in ("onceward", "apps") for path in (root / top).rglob(f"*{suffix}")]
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
    ALL.load("metrics")
    describe_process(__version__)
    lines = [
        "# Metrics",
        "",
        "`GET /metrics`, in the text format of Prometheus, or in OpenMetrics if the reader accepts it. Label values are",
        "closed sets or names from code and configuration, never texts from outside.",
        "[Alert rules](alerts.yml) for Prometheus use them; an app's metrics are there where it runs.",
        "",
        "Names begin with `onceward_`, those of an app with the name of the app, and end in the base unit. Three counters also",
        "have a name without the prefix, which runbooks for webhooks use:",
        f"{', '.join(f'`{name}`' for name in sorted(ALIASES))}.",
        "With [tracing](tracing.md) on, the buckets of histograms have exemplars with the `trace_id` of the last request or attempt (in",
        "OpenMetrics; Prometheus stores them with `--enable-feature=exemplar-storage`), so that a panel leads to the trace of a slow one.",
        "",
        "`onceward_queue_depth` and `onceward_queue_oldest_due_seconds` are read every 15 seconds. They are exact up to 10,000 rows of",
        "each queue and state (10,000 dead letters of all queues together) and never larger, so that they cost the same with ten rows",
        "as with ten million: a depth of 10,000 means 10,000 or more. Of a queue with lanes, the oldest work is that of the first 10,000",
        "rows in the order of the lanes.",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for metric in declared():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(lines) + "\n"


def growth_page() -> str:
    """Return the page that says for each table of the engine and of the apps what bounds it."""
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


def _filled(page: str, name: str, lines: Sequence[str]) -> str:
    """Return a page with these lines between its two markers of this name."""
    before, begin, rest = page.partition(f"<!-- {name}: begin -->\n")
    _, end, after = rest.partition(f"<!-- {name}: end -->")
    if not (begin and end):
        raise LookupError(f"the page has no markers {name!r}")
    return before + begin + "\n".join(lines) + "\n" + end + after


def security_page() -> str:
    """Return docs/security.md with the current table of routes between its two markers."""
    page = (HERE / "security.md").read_text(encoding="utf-8")
    rows = ["| route | credential | limit | can cause |", "|---|---|---|---|"]
    for route in asyncio.run(_routes()):
        causes = ", ".join(route.causes)
        rows.append(f"| `{route.method} {route.path}` | {route.credential} | {route.limit} | {causes} |")
    return _filled(page, "routes", rows)


def services_page() -> str:
    """Return docs/services.md with the current table of accounts between its two markers."""
    page = (HERE / "services.md").read_text(encoding="utf-8")
    rows = ["| service | accessor | fields of the account |", "|---|---|---|"]
    for service in callable_services().values():
        fields: list[str] = []
        for each in service.account:
            text = f"`{service.name}.{each.name}` = `{prefix_of(service.name)}{each.name.upper()}`"
            text = text if each.required else f"{text} (optional)"
            fields.append(f"*{text}*" if each.shared else text)
        rows.append(f"| {service.title} | `{service.name}` | {', '.join(fields)} |")
    return _filled(page, "accounts", rows)


async def _routes() -> list[ExposedRoute]:
    """Return the routes of a web process with the apps. Nothing connects to the database."""
    url = "postgresql://nowhere.invalid/none"
    settings = Settings(database_url=SecretStr(url)).using(
        TrustSettings(
            secret_key=SecretStr("k" * 32), oidc_issuer="https://accounts.example.com", oidc_client_id="onceward"
        )
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


PUBLIC = {
    "For applications": {
        "onceward": "What most applications need.",
        "onceward.testing": "Run work and assert effects in tests ([testing](testing.md)).",
        "onceward.testing.simulators": "Services that sign and answer like the real ones.",
        "onceward.fastapi": "Onceward inside a FastAPI application ([FastAPI](frameworks/fastapi.md)).",
        "onceward.sqlalchemy": "A SQLAlchemy session in the transaction ([SQLAlchemy](frameworks/sqlalchemy.md)).",
        "onceward.ledger": "Double-entry bookkeeping ([ledger](ledger.md)).",
        "onceward.look": "One set of colours and the frame of public pages ([one look](desk.md#one-look)).",
        "onceward.desk": "Lists, pages, forms, actions and charts for the people of an app ([the desk](desk.md)).",
        "onceward.payments": "Payments, refunds, disputes and instalments ([payments](payments.md)).",
        "onceward.capacity": "Pools that cannot be oversold ([capacity](capacity.md)).",
        "onceward.limits": "Admission slots and rates ([limits](limits.md)).",
        "onceward.services": "The answers of external services, and their settings in code ([services](services.md)).",
        "onceward.money": "Amounts of money: decimals, writing, and what payment services take.",
        "onceward.messages": "Recipients, senders and templates ([messages](messages.md)).",
        "onceward.live": "Callers and presence of live queries ([live](live.md)).",
        "onceward.schedules": "Run a schedule from code ([schedules](schedules.md)).",
    },
    "For apps with their own routes, pages, commands and checks": {
        "onceward.feature": "The contract of a package ([features](features.md)).",
        "onceward.web": "Routes: who may call them, and errors ([features](features.md)).",
        "onceward.web.dashboard": "Pages of the dashboard ([dashboard](dashboard.md)).",
        "onceward.cli": "Commands ([features](features.md)).",
        "onceward.trust": "Organizations, identities, erasers and checks ([trust](trust.md)).",
        "onceward.db": "Connections and transactions without an app ([database](database.md)).",
        "onceward.background": "Loops and tasks whose failure is logged.",
        "onceward.telemetry": "Logs ([tracing](tracing.md)).",
        "onceward.telemetry.metrics": "Metrics of an app ([metrics](metrics.md)).",
        "onceward.inbox.sources": "Add and change sources of webhooks from code ([inbox](inbox.md)).",
        "onceward.outbox": "What an app uses and catches when it manages endpoints ([outbox](outbox.md)).",
        "onceward.work": "A worker inside another program ([work](work.md)).",
        "onceward.http": "An HTTP client for a configured service.",
    },
}
PUBLIC["For those who write an integration"] = {
    "onceward.integration": "What an integration declares.",
    "onceward.webhooks": "What a sender of webhooks is made of.",
}
PUBLIC["Integrations"] = {
    f"onceward.integrations.{name}": str(importlib.import_module(f"onceward.integrations.{name}").__doc__)
    for name in integrations()
    if name not in integrations().senders
    and hasattr(importlib.import_module(f"onceward.integrations.{name}"), "__all__")
}
"""The modules whose names are public. Every other module and name is internal and may change in any release."""


def public_names(module: str) -> list[str]:
    """Return the public names of a module: its `__all__`."""
    return sorted(name for name in importlib.import_module(module).__all__ if not name.startswith("_"))


@cache
def _parsed(module: str) -> ast.Module:
    source = importlib.import_module(module).__file__
    assert source is not None
    return ast.parse(Path(source).read_text(encoding="utf-8"))


def _written_below(module: str, name: str) -> str | None:
    """Return the string that stands below the definition of a value, in the module that defines it."""
    statements = _parsed(module).body
    for at, node in enumerate(statements):
        match node:
            case ast.Assign(targets=[ast.Name(id=defined)]) | ast.AnnAssign(target=ast.Name(id=defined)):
                if defined == name:
                    below = statements[at + 1 : at + 2]
                    return next((each.value.value for each in below if _is_text(each)), None)
            case _:
                pass
    for node in ast.walk(_parsed(module)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != module:
            for each in node.names:
                if (each.asname or each.name) == name:
                    return _written_below(node.module, each.name)
    return None


def _is_text(node: ast.stmt) -> TypeGuard[Any]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def promise(module: str, name: str) -> str:
    """Return the first sentence of what is written about a public name: its docstring, or the string below a value."""
    value = getattr(importlib.import_module(module), name)
    text = value.__doc__ if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value) else None
    if not text or text.startswith((f"{getattr(value, '__name__', '')}(", "!!!")):
        text = _written_below(module, name)
    if not text:
        return ""
    first = " ".join(text.strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.:]) (?=[A-Z`])", first)[0]
    return sentence.rstrip(":").replace("|", "\\|")


def reference_page() -> str:
    modules = {module for group in PUBLIC.values() for module in group}
    count = sum(len(public_names(module)) for module in modules)
    lines = [
        "# Public names",
        "",
        f"The {count} names on this page are the Python interface of Onceward: they change only as the",
        "[rules of upgrades](upgrading.md) say. Every other module and name is internal and may change in any release.",
        "The site has the signatures of the most important ones on the page *Python API*.",
    ]
    for title, group in PUBLIC.items():
        lines += ["", f"## {title}"]
        for module, purpose in group.items():
            lines += ["", f"### `{module}`", "", purpose, "", "| name | meaning |", "|---|---|"]
            lines += [f"| `{name}` | {promise(module, name)} |" for name in public_names(module)]
    return "\n".join(lines) + "\n"


SENDER = re.compile(r"^Sender: (.+)\. Signature: (.+)\. Event id: (.+)\. Retries: (.+)\.$", re.MULTILINE)
"""The line in the README of an integration that sends webhooks."""


def senders_by_scheme() -> list[str]:
    """Return the senders that are only data, grouped by how they prove who they are."""
    groups: dict[str, list[str]] = {}
    for name in integrations().senders:
        provider = PROVIDERS[name]
        assert isinstance(provider, Sender)
        groups.setdefault(scheme_of(provider), []).append(f"[{provider.title}]({name}.md)")
    return [f"| {scheme} | {', '.join(groups[scheme])} |" for scheme in sorted(groups)]


def integrations_page() -> str:
    """Return docs/integrations/README.md with the integrations that are only called, and the senders by name and
    by scheme."""
    page = (HERE / "integrations" / "README.md").read_text(encoding="utf-8")
    names = (name for name in integrations() if not integrations().sends_webhooks(name))
    called = sorted((integrations()[name] for name in names), key=lambda each: each.title)
    links = ", ".join(f"[{each.title}]({each.name}.md)" for each in called)
    rows = ["| provider | sender | signature | event id | retries |", "|---|---|---|---|---|"]
    for name in integrations().names_having("webhooks"):
        facts = SENDER.search(integration_page(name))
        assert facts is not None, (
            f"the README of {name} has no line `Sender: ... Signature: ... Event id: ... Retries: ...`"
        )
        rows.append(f"| [`{name}`]({name}.md) | {' | '.join(facts.groups())} |")
    page = _filled(page, "only called", fill(f"Only called: {links}.", 120, break_on_hyphens=False).splitlines())
    page = _filled(page, "schemes", ["| scheme | senders |", "|---|---|", *senders_by_scheme()])
    return _filled(page, "senders", rows)


def integration_page(name: str) -> str:
    """Return the contract page of an integration, with links that fit docs/integrations."""
    text = contract_page(name).replace("](../../../docs/", "](../")
    return re.sub(r"\]\(\.\./(\w+)/README\.md", r"](\1.md", text)


PAGES = {
    **{f"integrations/{name}.md": partial(integration_page, name) for name in integrations()},
    "integrations/README.md": integrations_page,
    "reference.md": reference_page,
    "security.md": security_page,
    "services.md": services_page,
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
