"""`organizations` and `users`: tenants, the people in them, and how they log in."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run, settings_here

if TYPE_CHECKING:
    from onceward.db import Connection

ACTOR = "operator:cli"

organizations = typer.Typer(no_args_is_help=True, help="Organizations: tenants that never see each other's rows.")
users = typer.Typer(no_args_is_help=True, help="People who use the dashboard, and their login links.")

OrganizationOption = Annotated[
    str | None, typer.Option("--organization", "-o", help="Slug or id of the organization. Default: all.")
]


def register(cli: typer.Typer) -> None:
    cli.add_typer(organizations, name="organizations")
    cli.add_typer(users, name="users")


COLUMNS = ("slug", "name", "organization_id", "weight", "created_at")
NO_ORGANIZATIONS = "no organization exists: `onceward organizations add SLUG` creates one"
NO_USERS = "nobody can log in yet: `onceward users add ADDRESS --admin` adds an administrator and prints a login link"


@organizations.command("add")
def add(
    slug: Annotated[str, typer.Argument(help="Short name, from a-z, 0-9 and -.")],
    name: Annotated[str, typer.Option("--name", help="Display name.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Create an organization."""

    async def work() -> dict[str, Any]:
        from onceward.trust import create_organization

        async with opened_database() as db, db.transaction(role="engine") as tx:
            return asdict(await create_organization(tx, slug, name=name, actor=ACTOR))

    created = run(work())
    if as_json:
        document(created)
    else:
        say(f"organization {created['slug']} has the id {created['organization_id']}")


@organizations.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List the organizations."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust.organizations import list_organizations

        async with opened_database() as db, db.acquire() as conn:
            return [asdict(one) for one in await list_organizations(conn)]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty=NO_ORGANIZATIONS)


@organizations.command("set")
def set_(
    organization: Annotated[str, typer.Argument(help="Slug or id of the organization.")],
    weight: Annotated[
        int,
        typer.Option(
            "--weight", min=1, max=100, help="Turns that its work gets for one turn of others, while work waits."
        ),
    ],
) -> None:
    """Set how much of the workers an organization gets while work of several organizations waits."""

    async def work() -> str:
        from onceward.trust import find_organization
        from onceward.trust.organizations import set_weight

        async with opened_database() as db, db.transaction(role="engine") as tx:
            row = await find_organization(tx.conn, organization)
            await set_weight(tx, row.organization_id, weight, actor=ACTOR)
            return row.slug

    say(f"{run(work())} has the weight {weight}")


@organizations.command("require-second-factor")
def require_second_factor(
    organization: Annotated[str, typer.Argument(help="Slug or id of the organization.")],
    off: Annotated[bool, typer.Option("--off", help="No longer require it.")] = False,
) -> None:
    """Require a second factor of everybody who acts for the organization in the dashboard."""

    async def work() -> str:
        from onceward.trust import find_organization
        from onceward.trust.organizations import set_second_factor_required

        async with opened_database() as db, db.transaction(role="engine") as tx:
            row = await find_organization(tx.conn, organization)
            await set_second_factor_required(tx, row.organization_id, required=not off, actor=ACTOR)
            return row.slug

    say(f"{run(work())} {'does not require' if off else 'requires'} a second factor")


@users.command("add")
def add_user(
    email: Annotated[str, typer.Argument(help="Email address of the person.")],
    organization: Annotated[
        str | None, typer.Option("--organization", "-o", help="Slug or id of the organization.")
    ] = None,
    role: Annotated[
        Literal["owner", "operator", "viewer", "member"],
        typer.Option(help="Role in the organization; member: only what --desk-role allows."),
    ] = "viewer",
    desk_role: Annotated[
        list[str] | None,
        typer.Option("--desk-role", help="Role in the desk of an app, such as tickets.door; repeatable."),
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="Make the person an administrator of the whole instance.")
    ] = False,
) -> None:
    """Add a person to an organization or as an administrator, and print a login link."""

    async def work() -> str:
        from onceward.trust import find_organization
        from onceward.trust import organizations as trust
        from onceward.trust.sessions import create_link

        async with opened_database() as db, db.transaction(role="engine") as tx:
            user_id = await trust.add_user(tx, email, admin=True if admin else None, actor=ACTOR)
            if organization is not None:
                row = await find_organization(tx.conn, organization)
                await trust.set_member(tx, row.organization_id, email, role, desk_roles=desk_role or (), actor=ACTOR)
            return await _login_url(tx.conn, await create_link(tx, user_id, actor=ACTOR))

    if organization is None and not admin:
        raise typer.BadParameter("give --organization, or --admin for the whole instance")
    say(run(work()))


@users.command("login-link")
def login_link(email: Annotated[str, typer.Argument(help="Email address of the person.")]) -> None:
    """Print a new login link for an existing user. The link works once, for 24 hours."""

    async def work() -> str:
        from onceward.trust.sessions import link_for

        async with opened_database() as db, db.transaction(role="engine") as tx:
            return await _login_url(tx.conn, await link_for(tx, email, actor=ACTOR))

    say(run(work()))


@users.command("disable")
def disable(
    email: Annotated[str, typer.Argument(help="Email address of the person.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, which is written to the audit log.")] = None,
) -> None:
    """Disable an account in every organization, and revoke its sessions and login links."""
    _set_disabled(email, disabled=True, reason=reason)
    say(f"{email} is disabled")


@users.command("enable")
def enable(
    email: Annotated[str, typer.Argument(help="Email address of the person.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, which is written to the audit log.")] = None,
) -> None:
    """Enable a disabled account again, in the organizations that the account belongs to."""
    _set_disabled(email, disabled=False, reason=reason)
    say(f"{email} is enabled")


def _set_disabled(email: str, *, disabled: bool, reason: str | None) -> None:
    async def work() -> None:
        from onceward.trust.organizations import set_disabled

        async with opened_database() as db, db.transaction(role="engine") as tx:
            await set_disabled(tx, email, disabled=disabled, actor=ACTOR, reason=reason)

    run(work())


@users.command("reset-second-factor")
def reset_second_factor(
    email: Annotated[str, typer.Argument(help="Email address of the person.")],
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, which is written to the audit log.")] = None,
) -> None:
    """Remove the second factors and recovery codes of a person who lost them, and end all their sessions."""

    async def work() -> None:
        from onceward.trust.second_factor import reset_factors

        async with opened_database() as db, db.transaction(role="engine") as tx:
            await reset_factors(tx, email, actor=ACTOR, reason=reason)

    run(work())
    say(f"{email} has no second factor now and can sign in with a login link")


@users.command("end-sessions")
def end_all_sessions(email: Annotated[str, typer.Argument(help="Email address of the person.")]) -> None:
    """End all sessions of a person, and delete their unused login links."""

    async def work() -> int:
        from onceward.trust.organizations import find_user
        from onceward.trust.own_sessions import end_sessions

        async with opened_database() as db, db.transaction(role="engine") as tx:
            return await end_sessions(tx, await find_user(tx, email), actor=ACTOR)

    say(f"{run(work())} sessions of {email} have ended")


@users.command("ls")
def list_users(organization: OrganizationOption = None, as_json: JsonOption = False) -> None:
    """List the people of the whole instance, or the members of one organization."""

    async def work() -> list[dict[str, Any]]:
        from onceward.trust import find_organization
        from onceward.trust import organizations as trust

        async with opened_database() as db, db.acquire() as conn:
            if organization is None:
                return [asdict(one) for one in await trust.list_users(conn)]
            row = await find_organization(conn, organization)
            return [asdict(one) for one in await trust.list_members(conn, row.organization_id)]

    columns = ("email", "admin", "organizations", "disabled") if organization is None else ("email", "role", "admin")
    listing(run(work()), columns=(*columns, "user_id"), as_json=as_json, empty=NO_USERS)


async def _login_url(conn: Connection, token: str) -> str:
    """Return the login link with the address of the running web server."""
    from onceward.trust.sessions import find_web_address

    settings = settings_here()
    base = settings.public_url or await find_web_address(conn) or settings.url
    return f"{base}/login?token={token}"
