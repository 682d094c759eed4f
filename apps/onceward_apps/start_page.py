"""The start page of the demo: what runs, where to look, what to try, and every message that was sent.

Only the demo serves these pages. They log in without a password and show every message, so they answer only requests
from this machine.
"""

from __future__ import annotations

import ipaddress
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

from fastapi import APIRouter, Depends, Form, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

from onceward import Context, Engine, OncewardError
from onceward.db import Transaction
from onceward.messages import render
from onceward.trust import NotAllowed, link_for, set_member
from onceward.web import Site, engine_of, log_in_with_link

HERE = Path(__file__).parent
SHOWN = 400
ADMINISTRATOR = "admin@localhost"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
}
FORWARDED = frozenset(
    {"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "cf-connecting-ip"}
)
DeskName = Literal["", "ticketing", "learning", "clinic", "engagement", "coursegen"]
"""The desks that the start page opens; empty: the whole dashboard, as the administrator."""


class Person(NamedTuple):
    """Who works at a desk of the demo: their address, role, and roles in the desk."""

    email: str
    name: str
    organization: str
    role: Literal["member", "operator"]
    desk_roles: tuple[str, ...] = ()


PEOPLE: dict[DeskName, Person] = {
    "ticketing": Person("rita@riverside.example", "Rita", "riverside", "member", ("ticketing.manager",)),
    "learning": Person("leo@lakeside.example", "Leo", "lakeside", "operator"),
    "clinic": Person("hana@harbour.example", "Hana", "harbour-clinic", "member", ("clinic.reception",)),
    "engagement": Person("nuno@nexfin.example", "Nuno", "nexfin", "member", ("engagement.support",)),
    "coursegen": Person("edda@lighthouse.example", "Edda", "lighthouse", "member", ("coursegen.editor",)),
}
SIMULATED = ("@crowd.example.com", "@students.example", "@localhost")
"""The ends of the mail addresses of simulated people, and of the administrator. All others are visitors."""
# Visitors find what was sent to them however much was sent to simulated people since.
NEWEST = """
with newest as (
    (select m.*, false as is_yours from onceward.messages m order by m.created_at desc, m.id desc limit $1)
    union all
    (select m.*, true from onceward.messages m where m.channel = 'email' and not m.address like any($2)
      order by m.created_at desc, m.id desc limit $1))
select n.channel, n.template, n.locale, n.timezone, n.data, n.status, n.address, n.created_at, n.is_yours,
       o.name as organization
  from newest n left join onceward.organizations o using (organization_id)
 where n.is_yours or n.channel <> 'email' or n.address is null or n.address like any($2)
 order by n.is_yours desc, n.created_at desc, n.id desc
"""


def only_from_this_machine(request: Request) -> None:
    """Refuse other machines, also behind a proxy on this one, and sites whose name was pointed to this machine.

    A proxy adds one of these headers, or speaks HTTP/1.0 as nginx does by default; a browser does neither.
    """
    host = request.url.hostname or ""
    client = request.client.host if request.client else ""
    is_direct = request.scope["http_version"] != "1.0" and not FORWARDED & set(request.headers)
    if not (is_direct and _is_loopback(client) and (host == "localhost" or _is_loopback(host))):
        raise NotAllowed("the start page of the demo is only for this machine: open it at http://127.0.0.1")


router = APIRouter(include_in_schema=False, dependencies=[Depends(only_from_this_machine)])


def use_start_page(context: Context) -> None:
    """Let `/` lead visitors who are not logged in to the start page."""
    context.part(Site).start_page = "/start"


@router.get("/start")
async def start_page() -> Response:
    return _page("start.html", onceward=_own_command())


@router.post("/start/login")
async def log_in(
    request: Request, engine: Annotated[Engine, Depends(engine_of)], desk: Annotated[DeskName, Form()] = ""
) -> Response:
    """Log in with one click: as somebody who works at this desk, or as the administrator."""
    async with engine.db.transaction(role="engine") as tx:
        email = await _hire(tx, PEOPLE[desk]) if desk else ADMINISTRATOR
        token = await link_for(tx, email or ADMINISTRATOR, hours=1, actor="system:demo")
    reply = RedirectResponse(f"/dashboard/{desk}" if desk else "/", status_code=303, headers=HEADERS)
    await log_in_with_link(request, token, reply)
    return reply


async def _hire(tx: Transaction, person: Person) -> str | None:
    """Make somebody a member of an organization of the demo, and return their address."""
    organization = await tx.fetchval(
        "select organization_id from onceward.organizations where slug = $1", person.organization
    )
    if organization is None:
        return None
    await set_member(tx, organization, person.email, person.role, desk_roles=person.desk_roles, actor="system:demo")
    await tx.execute("update onceward.users set name = $2 where email = $1 and name = ''", person.email, person.name)
    return person.email


@router.get("/start/messages")
async def messages(engine: Annotated[Engine, Depends(engine_of)], to: str = "") -> Response:
    """Show the newest messages as their recipients see them: a list of people, and the phone or the mailbox of one."""
    async with engine.db.transaction(role="engine") as tx:
        rows = await tx.fetch(NEWEST, SHOWN, [f"%{domain}" for domain in SIMULATED])
    boxes: dict[str, list[Any]] = {}
    for row in rows:
        boxes.setdefault(f"{'mail' if row['channel'] == 'email' else 'phone'} {_addressee(row)}", []).append(row)
    chosen = to if to in boxes else next(iter(boxes), "")
    shown = [{**row, **_content(engine, row)} for row in boxes.get(chosen, ())]
    people = [
        (name, name.partition(" ")[2], len(each), _content(engine, each[0])["subject"]) for name, each in boxes.items()
    ]
    return _page("messages.html", people=people, chosen=chosen, messages=shown, is_mail=chosen.startswith("mail"))


def _addressee(row: Any) -> str:
    """Return the address, or the name of a patient: the clinic keeps their numbers to itself."""
    return row["address"] or row["data"].get("patient") or "Without an address"


def _content(engine: Engine, row: Any) -> dict[str, str]:
    try:
        zone = ZoneInfo(row["timezone"] or "UTC")
        rendered = render(engine.templates.get(row["template"]), row["data"], locale=row["locale"], zone=zone)
    except (LookupError, OncewardError):  # a template of the provider, or data that were erased
        return {"subject": row["template"], "text": ""}
    return {"subject": rendered.subject or row["template"], "text": rendered.text}


def _page(name: str, **values: Any) -> Response:
    return Response(_templates().get_template(name).render(**values), media_type="text/html", headers=HEADERS)


@cache
def _templates() -> Environment:
    return Environment(loader=FileSystemLoader(HERE / "demo_pages"), autoescape=True, undefined=StrictUndefined)


def _own_command() -> str:
    """Return how a visitor calls the command line: by its name, or by its path in an environment that is not active."""
    program = Path(sys.executable).with_name("onceward")
    if shutil.which("onceward") is not None or not program.exists():
        return "onceward"
    return str(program.relative_to(Path.cwd()) if program.is_relative_to(Path.cwd()) else program)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
