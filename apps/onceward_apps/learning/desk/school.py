"""The look of the school: one row, with its name, colour and addresses."""

from __future__ import annotations

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Column, Detail, Listing
from onceward_apps.learning import schools
from onceward_apps.learning.desk.listings import desk

SCHOOL = desk.listing(
    Listing(
        name="school",
        title="School",
        noun="school",
        rows="learning.schools r",
        id="r.organization_id",
        columns=(
            Column("name", "Name"),
            Column("colour", "Colour"),
            Column("website", "Website"),
            Column("support_email", "Questions to", wide=True),
            Column("domain", "Domain"),
        ),
        empty="Set the name and the colour that students see on pages and in mails with the button above.",
    ),
    detail=Detail(
        title="r.name", also=("School",), words={"school_changed": "Changed", "school_domain_set": "Domain set"}
    ),
)


class LookForm(BaseModel):
    """What students see of the school."""

    name: str = Field(title="Name", min_length=1, max_length=200)
    colour: str = Field(schools.COLOUR, title="Colour", max_length=7, description="Of links and buttons: #1d5fd0.")
    website: str = Field("", title="Website", max_length=500)
    support_email: str = Field("", title="Questions to", max_length=320)


@desk.action(SCHOOL, "Set up", on="list", model=LookForm)
async def set_up(tx: Tx, act: Act[LookForm]) -> str:
    brand = await schools.set_look(tx, **act.given.model_dump(), actor=act.by.actor)
    act.id = str(brand.organization)
    return f"Pages and mails show {brand.name}."


async def load_look(tx: Tx, id: str) -> LookForm | None:
    brand = await schools.brand_of(tx)
    if str(brand.organization) != id:
        return None
    return LookForm(
        name=brand.name,
        colour=brand.colour or schools.COLOUR,
        website=brand.website or "",
        support_email=brand.support_email or "",
    )


@desk.action(SCHOOL, "Edit", model=LookForm, load=load_look)
async def edit_look(tx: Tx, act: Act[LookForm]) -> str:
    brand = await schools.set_look(tx, **act.given.model_dump(), actor=act.by.actor)
    return f"Pages and mails show {brand.name}."
