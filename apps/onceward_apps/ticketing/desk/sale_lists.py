"""The lists of the desk about a sale: ticket types, presale codes and questions."""

from __future__ import annotations

from onceward.desk import Column, Listing

TYPES = Listing(
    name="types",
    title="Ticket types",
    noun="ticket type",
    rows="ticketing.ticket_types r left join ticketing.sections x on x.id = r.section_id"
    " left join ticketing.events e on e.id = r.event_id",
    order="-created_at",
    roles=("manager",),
    columns=(
        Column("name", "Name"),
        Column("section", "Section", sql="x.name"),
        Column("event", "Event", sql="e.name"),
        Column("price_cents", "Price", kind="money", currency="e.currency"),
        Column("is_hidden", "Only with a code", kind="yes"),
        Column("ended_at", "Ended", kind="time"),
        Column("created_at", "Added", kind="time", sort=True, wide=True),
    ),
    empty="Add a ticket type on the page of a section: a lower price for students, for example.",
)
VENUES = Listing(
    name="venues",
    title="Venues",
    noun="venue",
    rows="ticketing.venues r",
    order="-created_at",
    roles=("manager",),
    columns=(
        Column("name", "Name", search=True),
        Column("address", "Address"),
        Column("timezone", "Time zone"),
        Column("created_at", "Added", kind="time", sort=True, wide=True),
    ),
    empty="Add the first venue with the button above: an event takes place at one.",
)
CODES = Listing(
    name="codes",
    title="Presale codes",
    noun="presale code",
    rows="ticketing.access_codes r left join ticketing.events e on e.id = r.event_id"
    " left join ticketing.sections x on x.id = r.section_id",
    order="-created_at",
    roles=("manager",),
    columns=(
        Column("code", "Code"),
        Column("event", "Event", sql="e.name"),
        Column("section", "Section", sql="coalesce(x.name, 'All of them')"),
        Column(
            "sold",
            "Sold",
            sql="(select count(*) from ticketing.seat_holds h where h.code_id = r.id and h.status = 'converted')",
            kind="number",
        ),
        Column("most_tickets", "Tickets at most", kind="number"),
        Column("valid_until", "Valid until", kind="time"),
        Column("created_at", "Added", kind="time", sort=True, wide=True),
    ),
    empty="Add a presale code on the page of an event.",
)
QUESTIONS = Listing(
    name="questions",
    title="Questions",
    noun="question",
    rows="ticketing.questions r left join ticketing.events e on e.id = r.event_id",
    order="-created_at",
    roles=("manager",),
    columns=(
        Column("title", "Question"),
        Column("event", "Event", sql="e.name"),
        Column("about", "Asked", words={"order": "Once per order", "ticket": "About each ticket"}, filter=True),
        Column("is_required", "Needs an answer", kind="yes"),
        Column("ended_at", "Ended", kind="time"),
        Column("created_at", "Added", kind="time", sort=True, wide=True),
    ),
    empty="Ask buyers something on the page of an event.",
)
