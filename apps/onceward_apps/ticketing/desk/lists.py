"""The lists of the desk: events, sections, orders, tickets, entries at the door, and coupons."""

from __future__ import annotations

from onceward.desk import Chart, Column, Desk, Detail, Listing, Related, Role
from onceward_apps.ticketing.app import HERE, app
from onceward_apps.ticketing.desk.sale_lists import CODES, QUESTIONS, TYPES, VENUES

EVENT = {"draft": "Draft", "on_sale": "On sale", "closed": "Closed", "cancelled": "Cancelled"}
ORDER = {
    "started": "Not paid yet",
    "completed": "Paid",
    "expired": "Expired",
    "abandoned": "Abandoned",
    "failed": "Payment failed",
    "refunded": "Refunded",
}
PROVIDER = {"stripe": "Stripe", "paypal": "PayPal", "by_hand": "By hand", "none": "Nothing to pay"}
TICKET = {"active": "Valid", "scanned": "Used", "void": "Invalid"}
ENTRY = {
    "admitted": "Admitted",
    "already_used": "Already used",
    "void": "Invalid ticket",
    "unknown": "Unknown ticket",
    "wrong_event": "Other event",
    "forged": "Forged",
    "frozen": "Payment disputed",
    "readmitted": "Came back",
    "left": "Went out",
    "not_inside": "Was not inside",
    "too_early": "Before the doors opened",
    "too_late": "After the doors closed",
    "addon": "An add-on",
}
BUYER = "coalesce(nullif(r.name, ''), r.email)"
HOLDER = "coalesce(nullif(r.holder_name, ''), r.holder_email, 'Nobody')"
ANSWERS = "(select string_agg(a.key || ': ' || a.value, '; ') from jsonb_each_text(c.answers->'tickets'->i.position) a)"
"""What the buyer answered about a ticket: an organizer finds it in the list and in its file."""
ORDER_ANSWERS = "(select string_agg(a.key || ': ' || a.value, '; ') from jsonb_each_text(r.answers->'order') a)"

desk = Desk(
    "ticketing",
    "Ticketing",
    app,
    table="ticketing.events",
    languages=HERE / "languages",
    order=90,
    key="0",
    roles=(
        Role("manager", "Manager", "Sells: events, orders, coupons"),
        Role("office", "Box office", "Sells for cash and bank transfers"),
        Role("accountant", "Accountant", "Sees invoices and settlements, closes the books"),
        Role("door", "Door", "Sees tickets and entries"),
    ),
)
TICKETS = Listing(
    name="tickets",
    title="Tickets",
    noun="ticket",
    rows="ticketing.tickets r left join ticketing.events e on e.id = r.event_id"
    " left join ticketing.sections s on s.id = r.section_id"
    " left join ticketing.checkouts c on c.id = r.checkout_id"
    " left join ticketing.checkout_items i on i.id = r.item_id"
    " left join ticketing.seats p on p.id = r.seat_id",
    order="-purchased_at",
    roles=("manager", "office", "door"),
    columns=(
        Column("holder", "Holder", sql=HOLDER, search=True),
        Column("code", "Code", sql="r.ticket_code", search=True),
        Column("event", "Event", sql="e.name"),
        Column("place", "Place", sql="coalesce(p.label, s.name)"),
        Column("status", "State", words=TICKET, tones={"active": "good", "void": "bad"}, filter=True),
        Column("purchased_at", "Bought", kind="time", sort=True, filter=True, wide=True),
        Column("scanned_at", "Entered", kind="time"),
        Column(
            "type", "Ticket type", sql="(select y.name from ticketing.ticket_types y where y.id = i.type_id)", wide=True
        ),
        Column("answers", "Answers", sql=ANSWERS, wide=True),
    ),
    empty="Tickets appear here when somebody has paid for them.",
)
ORDERS = Listing(
    name="orders",
    title="Orders",
    noun="order",
    rows="ticketing.checkouts r left join ticketing.events e on e.id = r.event_id",
    order="-started_at",
    roles=("manager", "office"),
    columns=(
        Column("buyer", "Buyer", sql=BUYER, search=True),
        Column("email", "Email", search=True, wide=True),
        Column("event", "Event", sql="e.name"),
        Column(
            "status",
            "State",
            words=ORDER,
            filter=True,
            tones={"completed": "good", "failed": "bad", "refunded": "warn"},
        ),
        Column("total_cents", "Total", kind="money", currency="r.currency"),
        Column("started_at", "Begun", kind="time", sort=True, filter=True),
    ),
    presets=(("Paid", "status=completed"), ("Today", "started_at=today")),
    empty="Orders appear here when somebody chooses seats and goes to pay.",
)
SECTIONS = Listing(
    name="sections",
    title="Prices and places",
    noun="section",
    rows="ticketing.sections r left join ticketing.events e on e.id = r.event_id",
    order="position",
    roles=("manager",),
    columns=(
        Column("name", "Name", search=True),
        Column("event", "Event", sql="e.name"),
        Column("kind", "Kind", words={"seated": "Numbered seats", "general": "Places", "addon": "Add-on"}, filter=True),
        Column("price_cents", "Price", kind="money", currency="e.currency"),
        Column(
            "places",
            "Places",
            sql="(select sum(c.capacity) from ticketing.pools p join onceward.capacity_pools c on c.id = p.pool_id"
            " where p.section_id = r.id)",
            kind="number",
        ),
        Column("is_hidden", "Only with a code", kind="yes", wide=True),
        Column("sale_from", "On sale from", kind="time", wide=True),
        Column("sale_until", "On sale until", kind="time", wide=True),
        Column("position", "Position", kind="number", sort=True, wide=True),
    ),
    empty="An event has at least one section.",
)
DOORS = Listing(
    name="doors",
    title="Doors",
    noun="door",
    rows="ticketing.doors r left join ticketing.events e on e.id = r.event_id",
    order="-created_at",
    roles=("manager",),
    columns=(
        Column("name", "Name"),
        Column("event", "Event", sql="e.name"),
        Column("seen_at", "Device seen", kind="time"),
        Column("created_at", "Opened", kind="time", sort=True),
        Column("ended_at", "Ended", kind="time"),
    ),
    empty="Open a door on the page of an event: its link turns a phone into a scanner.",
)
EVENTS = desk.listing(
    Listing(
        name="events",
        title="Events",
        noun="event",
        rows="ticketing.events r left join ticketing.venues v on v.id = r.venue_id",
        order="-starts_at",
        roles=("manager", "office", "door"),
        columns=(
            Column("name", "Name", search=True),
            Column("venue", "Venue", sql="v.name"),
            Column("status", "State", words=EVENT, filter=True, tones={"on_sale": "good", "cancelled": "bad"}),
            Column("starts_at", "Starts", kind="time", sort=True, filter=True),
            Column(
                "sold",
                "Sold",
                sql="(select o.sold || ' of ' || o.capacity from ticketing.occupancy(r.id) o)",
            ),
            Column(
                "revenue",
                "Revenue",
                sql="(select coalesce(sum(f.revenue_cents), 0) from ticketing.sales_funnel f where f.event_id = r.id)",
                kind="money",
                currency="r.currency",
                wide=True,
            ),
        ),
        presets=(("Coming", "starts_at=next&sort=starts_at"), ("This week", "starts_at=week&sort=starts_at")),
        empty="Add the first event with the button above. It needs a venue.",
    ),
    detail=Detail(
        title="r.name",
        facts=(
            Column("ends_at", "Ends", kind="time"),
            Column(
                "series",
                "Dates of the series",
                sql="(select nullif(count(*), 0) from ticketing.events d where d.series_id = r.series_id)",
                kind="number",
            ),
            Column("most_per_order", "Tickets per order", kind="number"),
            Column("most_per_customer", "Tickets per customer", kind="number"),
            Column("sale_from", "On sale from", kind="time"),
            Column("sale_until", "On sale until", kind="time"),
            Column(
                "group_discount",
                "Group discount",
                sql="r.group_bps / 100.0 || ' % from ' || r.group_from || ' tickets'",
            ),
            Column("refund_policy", "Refunds"),
            Column("cancel_reason", "Reason of the cancellation"),
            Column("moved_from", "Moved from", kind="time"),
            Column("refund_until", "Buyers may take their money back until", kind="time"),
            Column("blocked", "Blocked seats", kind="number"),
            Column("doors_open_at", "Doors open", kind="time"),
            Column("doors_close_at", "Doors close", kind="time"),
            Column("has_reentry", "Guests may come back", kind="yes"),
            Column(
                "entered",
                "Entered",
                sql="(select c.entered || ', ' || c.inside || ' inside' from ticketing.door_counts c"
                " where c.event_id = r.id)",
            ),
        ),
        related=(
            Related(SECTIONS, by="r.event_id", without=("event",)),
            Related(ORDERS, by="r.event_id", without=("event",)),
            Related(TICKETS, by="r.event_id", without=("event",)),
            Related(DOORS, by="r.event_id", without=("event",)),
            Related(TYPES, by="r.event_id"),
            Related(CODES, by="r.event_id"),
            Related(QUESTIONS, by="r.event_id"),
        ),
        also=("Event",),
        words={
            "event_added": "Created",
            "event_status": "State changed",
            "event_cancelled": "Cancelled",
            "event_moved": "Moved to another date",
            "event_changed": "Changed",
            "section_added": "Section added",
            "section_changed": "Price or places changed",
            "seats_blocked": "Seats blocked",
            "seats_unblocked": "Seats unblocked",
            "ticket_type_added": "Ticket type added",
            "ticket_type_changed": "Ticket type changed",
            "presale_code_added": "Presale code added",
            "presale_code_changed": "Presale code changed",
            "question_added": "Question added",
            "question_ended": "Question ended",
            "door_added": "Door opened",
            "door_ended": "Door ended",
        },
        documents="select 'Page of the shop' as title, '/events/' || $1 as path",
        charts=(
            Chart(
                name="sales",
                title="Tickets sold",
                sql="select day as at, seats as value from ticketing.sales_funnel"
                " where event_id = $2::text::uuid and day >= $1",
                days=60,
                roles=("manager", "office"),
                empty="No ticket was sold in the last 60 days.",
            ),
        ),
    ),
)
desk.listing(SECTIONS, detail=Detail(title="r.name || ', ' || e.name", related=(Related(TYPES, by="r.section_id"),)))
for each in (TYPES, CODES, QUESTIONS, VENUES):
    desk.listing(each)
desk.listing(
    DOORS,
    detail=Detail(
        title="r.name || ', ' || e.name",
        documents="select 'QR code of the link' as title, '/api/v1/ticketing/doors/' || id || '/link.png' as path"
        " from ticketing.doors where id = $1::text::uuid and ended_at is null",
    ),
)
desk.listing(
    ORDERS,
    detail=Detail(
        title=BUYER + " || ', ' || e.name",
        facts=(
            Column("refunded_cents", "Refunded", kind="money", currency="r.currency"),
            Column("coupon_code", "Coupon"),
            Column("group_discount_cents", "Group discount", kind="money", currency="r.currency"),
            Column("answers", "Answers", sql=ORDER_ANSWERS),
            Column("completed_at", "Paid", kind="time"),
            Column("provider", "Paid with", words=PROVIDER),
            Column("transfer_reference", "Reference of the bank transfer"),
            Column(
                "invoice",
                "Invoice number",
                sql=(
                    "(select max(i.number) from ticketing.invoices i where i.checkout_id = r.id and i.kind = 'invoice')"
                ),
                kind="number",
            ),
        ),
        related=(Related(TICKETS, by="r.checkout_id", without=("event",)),),
        also=("Checkout",),
        words={
            "checkout_completed": "Paid",
            "checkout_refunded": "Refunded",
            "order_links_revoked": "Links revoked",
            "order_email_corrected": "Email corrected",
        },
        documents="select 'Tickets to print' as title, '/api/v1/ticketing/orders/' || c.id || '/tickets.pdf' as path,"
        " 'tickets.transfer' as action"
        " from ticketing.checkouts c where c.id = $1::text::uuid and c.status = 'completed'"
        " union all select case i.kind when 'invoice' then 'Invoice ' else 'Credit note ' end"
        " || (i.document->>'number'), '/api/v1/ticketing/invoices/' || i.number || '.pdf', null"
        " from ticketing.invoices i where i.checkout_id = $1::text::uuid and onceward.organization() is not null",
        timeline="select m.created_at as at, 'Mail: ' || replace(m.template, '-', ' ')"
        " || case m.status when 'success' then '' else ' (' || m.status || ')' end as what, '' as who"
        " from ticketing.checkouts c join onceward.messages m"
        " on coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000') = c.organization_id"
        " and m.key >= 'checkout:' || $1::text and m.key < 'checkout:' || $1::text || '~' where c.id = $1::text::uuid",
    ),
)
desk.listing(
    TICKETS,
    detail=Detail(
        title=HOLDER + " || ', ' || e.name",
        facts=(
            Column("void_reason", "Why it is invalid"),
            Column("scanned_gate", "Gate"),
            Column("transfers", "Times given to somebody else", kind="number"),
        ),
        also=("Ticket",),
        words={"ticket_voided": "Made invalid", "ticket_transferred": "Given to somebody else"},
        documents="select 'Order' as title, '/dashboard/ticketing/orders/row/' || checkout_id as path"
        " from ticketing.tickets where id = $1::text::uuid",
        timeline="select scanned_at as at, 'At the door: ' || replace(outcome, '_', ' ')"
        " || case when gate = '' then '' else ', ' || gate end as what, scanned_by as who"
        " from ticketing.scans where ticket_id = $1::text::uuid",
    ),
)
TRANSFERS = desk.listing(
    Listing(
        name="transfers",
        title="Bank transfers",
        noun="bank transfer",
        rows="ticketing.transfers r left join ticketing.checkouts c on c.id = r.checkout_id",
        order="-created_at",
        roles=("manager", "office"),
        columns=(
            Column("line", "Line of the statement"),
            Column("amount_cents", "Amount", kind="money", currency="r.currency"),
            Column("memo", "Text", wide=True),
            Column(
                "outcome",
                "State",
                words={
                    "unmatched": "Names no order",
                    "sold": "Pays its order",
                    "returned": "Goes back",
                    "dismissed": "Put aside",
                },
                tones={"unmatched": "warn", "sold": "good", "returned": "bad"},
                filter=True,
            ),
            Column("buyer", "Buyer", sql="coalesce(nullif(c.name, ''), c.email)"),
            Column("created_at", "Recorded", kind="time", sort=True, filter=True),
        ),
        presets=(("To assign", "outcome=unmatched"),),
        empty="Record the lines of a bank statement with the button above: they pay the orders that they name.",
    ),
    detail=Detail(title="r.line", facts=(Column("memo", "Text"),)),
)
ENTRIES = desk.listing(
    Listing(
        name="entries",
        title="Entries",
        noun="entry",
        plural="entries",
        rows="ticketing.scans r left join ticketing.events e on e.id = r.event_id"
        " left join ticketing.tickets t on t.id = r.ticket_id",
        order="-scanned_at",
        roles=("manager", "office", "door"),
        columns=(
            Column("holder", "Holder", sql="coalesce(nullif(t.holder_name, ''), t.holder_email)"),
            Column("event", "Event", sql="e.name"),
            Column("outcome", "Outcome", words=ENTRY, filter=True, tones={"admitted": "good", "forged": "bad"}),
            Column("gate", "Gate", filter=True),
            Column("scanned_at", "When", kind="time", sort=True, filter=True),
            Column("was_offline", "Without a network", kind="yes", wide=True),
            Column("let_in", "Let in", kind="yes", wide=True),
            Column("undone_at", "Undone", kind="time", wide=True),
            Column(
                "report",
                "Report",
                sql="case when r.let_in and r.outcome not in ('admitted', 'readmitted') then 'wrong' else 'right' end",
                words={"wrong": "Let in wrongly", "right": "As it should be"},
                tones={"wrong": "bad"},
                filter=True,
                wide=True,
            ),
        ),
        empty="Scan a ticket at the door, and it appears here.",
    )
)
desk.listing(
    Listing(
        name="waitlist",
        title="Waitlist",
        noun="place in the line",
        plural="places in the line",
        rows="ticketing.waitlist r left join ticketing.events e on e.id = r.event_id",
        order="-created_at",
        roles=("manager",),
        columns=(
            Column("email", "Email"),
            Column("name", "Name"),
            Column("event", "Event", sql="e.name"),
            Column("seats", "Places", kind="number"),
            Column(
                "status",
                "State",
                words={
                    "waiting": "Waits",
                    "offered": "Has an offer",
                    "bought": "Bought",
                    "expired": "Offer ran out",
                    "left": "Left",
                },
                tones={"offered": "busy", "bought": "good"},
                filter=True,
            ),
            Column("offer_until", "Offer until", kind="time"),
            Column("created_at", "Joined", kind="time", sort=True),
        ),
        empty="People join the waitlist on the page of an event that is sold out.",
    )
)
INVOICES = desk.listing(
    Listing(
        name="invoices",
        title="Invoices",
        noun="invoice",
        rows="ticketing.invoices r left join ticketing.checkouts c on c.id = r.checkout_id",
        id="r.number",
        id_type="bigint",
        order="-issued_at",
        roles=("manager", "accountant"),
        columns=(
            Column("text", "Number", sql="r.document->>'number'"),
            Column("kind", "Kind", words={"invoice": "Invoice", "credit_note": "Credit note"}, filter=True),
            Column(
                "buyer",
                "Buyer",
                sql="coalesce(nullif(r.document->'buyer'->>'company', ''), r.document->'buyer'->>'name')",
            ),
            Column(
                "total_cents",
                "Total",
                sql="(r.document->>'total_cents')::bigint * case r.kind when 'invoice' then 1 else -1 end",
                kind="money",
                currency="r.document->>'currency'",
            ),
            Column("cancels", "Takes back", sql="r.cancels", kind="number", wide=True),
            Column("issued_at", "Issued", kind="time", sort=True, filter=True),
        ),
        presets=(("Credit notes", "kind=credit_note"),),
        empty="The first paid order gets the first invoice.",
    ),
    detail=Detail(
        title="r.document->>'number'",
        # Numbers are those of an organization: the API cannot find one for an administrator of all.
        documents="select 'PDF' as title, '/api/v1/ticketing/invoices/' || $1 || '.pdf' as path"
        " where onceward.organization() is not null",
    ),
)
COUPONS = desk.listing(
    Listing(
        name="coupons",
        title="Coupons",
        noun="coupon",
        rows="ticketing.coupons r left join ticketing.events e on e.id = r.event_id",
        order="-created_at",
        roles=("manager",),
        columns=(
            Column("code", "Code", search=True),
            Column("event", "Event", sql="coalesce(e.name, 'Every event')"),
            Column("percent", "Percent", sql="r.percent_bps / 100.0", kind="number"),
            Column("amount_cents", "Amount", kind="money", currency="r.currency"),
            Column("most_uses", "Uses at most", kind="number"),
            Column("valid_until", "Valid until", kind="time"),
            Column("created_at", "Added", kind="time", sort=True, wide=True),
        ),
        empty="Add the first coupon with the button above.",
    )
)
