"""The desk page on which the people of an organization choose its colour and its logo."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from onceward.desk import Act, Column, Desk, Detail, Listing, Upload
from onceward.look.organizations import MOST_LOGO_BYTES, logo_type
from onceward.tx import Tx
from onceward.web.dashboard import ActionRefused

desk = Desk("look", "Look", None, table="onceward.organization_looks", order=90, group="Setup", key="l")

LOOKS = desk.listing(
    Listing(
        name="organizations",
        title="Public pages",
        noun="organization",
        rows="onceward.organization_looks r join onceward.organizations o on o.organization_id = r.organization_id",
        id="r.organization_id",
        order="name",
        columns=(
            Column("name", "Name", sql="o.name", sort=True, search=True),
            Column("accent", "Colour", sql="coalesce(nullif(r.accent, ''), 'the usual one')"),
            Column("logo", "Logo", sql="r.logo is not null", kind="yes"),
        ),
        empty="There is no organization yet.",
        every_s=None,
    ),
    detail=Detail(
        title="o.name",
        documents="select 'Logo' as title, '/look/organizations/' || organization_id || '/logo' as path"
        " from onceward.organization_looks where organization_id = $1::text::uuid and logo is not null",
    ),
)


class Chosen(BaseModel):
    """What the people of an organization choose for its public pages."""

    accent: Annotated[str, StringConstraints(to_lower=True, pattern="^(#[0-9a-fA-F]{6})?$")] = Field(
        default="",
        title="Colour",
        description="Of buttons and links, such as #2456cf. It is made darker or lighter where it could not be read."
        " Empty: the usual blue.",
    )
    logo: Upload | None = Field(
        default=None, title="Logo", description="PNG, JPEG or WebP of up to 200 kB. Empty: the present one stays."
    )
    without_logo: bool = Field(default=False, title="Remove the logo")


async def load(tx: Tx, id: str) -> Chosen | None:
    accent = await tx.fetchval("select accent from onceward.organization_looks where organization_id = $1", UUID(id))
    return None if accent is None else Chosen(accent=accent)


@desk.action(LOOKS, "Change the look", model=Chosen, load=load)
async def change_look(tx: Tx, act: Act[Chosen]) -> str:
    content, kind = None, ""
    if act.given.logo is not None:
        content, kind = act.given.logo.content, logo_type(act.given.logo.content) or ""
        if not kind:
            raise ActionRefused(f"{act.given.logo.name} is not a PNG, JPEG or WebP picture")
        if len(content) > MOST_LOGO_BYTES:
            raise ActionRefused(
                f"{act.given.logo.name} has {len(content):,} bytes; a logo may have {MOST_LOGO_BYTES:,}"
            )
    await tx.execute(
        "update onceward.organization_looks set accent = $2, changed_at = onceward.now(),"
        " logo = case when $5 then null else coalesce($3, logo) end,"
        " logo_type = case when $5 then '' else coalesce(nullif($4, ''), logo_type) end where organization_id = $1",
        UUID(act.id),
        act.given.accent,
        content,
        kind,
        act.given.without_logo,
    )
    return "Visitors see the new look within five minutes."


PAGES = desk.pages
