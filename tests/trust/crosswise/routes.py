"""Every route of the process, and how to ask it for something of another organization.

`$name` stands for a thing of the organization that is asked for, `@name` for the same thing of the caller. The
test fails for a route that is not here: the author of a new route adds how it could be misused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

Shows = Literal["own", "public", "instance", "nothing"]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """`shows`: what an organization owns; what everybody may see of it; what only administrators of the instance may;
    or nothing that belongs to anybody. `blank`: an answer to its owner names nothing of theirs. `refused`: nobody gets it so."""

    fill: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    form: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    shows: Shows = "own"
    blank: bool = False
    refused: bool = False


NOTHING = Ask(shows="nothing")
INSTANCE = Ask(shows="instance")
WHY = {"reason": "a test"}
ENDPOINT = {"endpoint_id": "$endpoint"}
SOURCE = {"source": "$source"}
RECEIVED = {"event": "$event_id"}
SINCE = {"since": "2026-01-01T00:00:00Z"}
PORTAL = {"onceward_portal": "@portal"}
ACCESS = {"access": "@order_token"}
API = "/api/v1"
TICKETING = "/api/v1/ticketing"
ENGAGEMENT = "/api/v1/engagement"
USER = {"user_id": "$engaged"}
PUBLIC = "/api/v1/ticketing/public"
CLINIC = "/api/v1/clinic"
VISIT = {"appointment_id": "$appointment"}
CHECKOUT = {"checkout_id": "$checkout"}
EVENT = {"event_id": "$event"}
TICKET = {"ticket_id": "$ticket"}
HELD = {"ticket_id": "$held"}
DOOR = {"door_id": "$door"}
NO_PLACE = {"entry_id": "00000000-0000-4000-8000-000000000009"}
YEARS = {"since": "2020-01-01T00:00:00Z", "until": "2041-01-01T00:00:00Z"}
UNKNOWN_ID = "00000000-0000-4000-8000-000000000008"
AT_DOOR = {"Authorization": "Bearer @door_token"}
BUYER = {"email": "buyer@example.org"}
PUSH = {"endpoint": "https://push.example/x", "keys": {"p256dh": "B" * 87, "auth": "a" * 22}}
NEW_EVENT = {
    "venue_id": "$venue",
    "name": "new",
    "starts_at": "2031-06-21T18:00:00Z",
    "ends_at": "2031-06-21T20:00:00Z",
    "currency": "EUR",
    "sections": [{"name": "s", "price_cents": 1, "places": 3}],
}

READING: dict[tuple[str, str], Ask] = {
    ("GET", f"{API}/openapi.json"): NOTHING,
    ("GET", f"{API}/docs"): NOTHING,
    ("GET", "/healthz"): NOTHING,
    ("GET", "/readyz"): NOTHING,
    # For the operator's own network: names sources by their ids, and nothing else of anybody.
    ("GET", "/metrics"): Ask(shows="public", blank=True),
    ("GET", "/login"): NOTHING,
    ("GET", "/login/second-factor"): NOTHING,
    ("GET", "/login/confirm"): Ask(shows="nothing"),
    ("GET", "/login/passkey/options"): NOTHING,
    ("GET", f"{API}/me"): Ask(),
    ("GET", f"{API}/organizations"): Ask(),
    ("GET", f"{API}/members"): Ask(),
    ("GET", f"{API}/keys"): Ask(),
    ("GET", f"{API}/secrets"): Ask(),
    ("GET", f"{API}/audit"): Ask(query={"entity_id": "$endpoint"}),
    ("GET", f"{API}/audit/verify"): INSTANCE,
    ("GET", f"{API}/trace/{{ref}}"): Ask(fill={"ref": "$event_id"}),
    ("GET", f"{API}/system-metrics"): INSTANCE,
    ("GET", f"{API}/notifications/{{id}}"): Ask(fill={"id": "$notification"}),
    ("GET", "/pay/{payment_id}"): Ask(fill={"payment_id": str(UUID(int=1))}, shows="nothing", refused=True),
    ("GET", "/preferences/{token}"): Ask(fill={"token": "x" * 43}, shows="nothing", refused=True),
    ("GET", "/unsubscribe/{token}"): Ask(fill={"token": "$unsubscribe"}, shows="nothing"),
    ("GET", "/templates/{name}"): Ask(fill={"name": "order-confirmation"}, shows="nothing"),
    ("GET", "/look/public.css"): NOTHING,
    ("GET", "/look/icon.svg"): NOTHING,
    # Colour and logo are for every visitor of the public pages; these organizations have chosen none.
    ("GET", "/look/organizations/{organization}.css"): Ask(
        fill={"organization": "$organization"}, shows="public", blank=True
    ),
    ("GET", "/look/organizations/{organization}/logo"): Ask(
        fill={"organization": "$organization"}, shows="public", refused=True
    ),
    ("GET", f"{API}/sources"): Ask(),
    ("GET", f"{API}/sources/{{source}}"): Ask(fill=SOURCE),
    ("GET", f"{API}/events"): Ask(query={"source": "$source"}),
    ("GET", f"{API}/events/{{event}}"): Ask(fill=RECEIVED),
    ("GET", f"{API}/event-types"): NOTHING,
    ("GET", f"{API}/endpoints"): Ask(),
    ("GET", f"{API}/endpoints/{{endpoint_id}}"): Ask(fill=ENDPOINT),
    ("GET", f"{API}/webhook-keys/{{organization_id}}"): Ask(
        fill={"organization_id": "$organization"}, shows="public", blank=True
    ),
    ("GET", f"{API}/deliveries"): Ask(query=ENDPOINT),
    ("GET", f"{API}/deliveries/{{id}}"): Ask(fill={"id": "$delivery"}),
    ("GET", f"{API}/resends"): Ask(),
    ("GET", f"{API}/resends/{{id}}"): Ask(fill={"id": "$resend"}, blank=True),
    ("GET", "/portal"): Ask(cookies=PORTAL),
    ("GET", "/portal/endpoints/{endpoint_id}"): Ask(fill=ENDPOINT, cookies=PORTAL),
    ("GET", "/portal/deliveries/{id}"): Ask(fill={"id": "$delivery"}, cookies=PORTAL),
    ("GET", f"{API}/workflows"): Ask(query={"attributes": '{"said": "$message_key"}'}),
    ("GET", f"{API}/workflows/{{id}}"): Ask(fill={"id": "$workflow"}),
    ("GET", f"{API}/limits"): INSTANCE,
    ("GET", f"{API}/dead-letters"): Ask(),
    ("GET", f"{API}/dead-letters/groups"): Ask(),
    ("GET", f"{API}/dead-letters/{{id}}"): Ask(fill={"id": "$dead"}),
    ("GET", f"{API}/jobs"): Ask(),
    ("GET", f"{API}/tasks"): NOTHING,
    ("GET", f"{API}/jobs/{{id}}"): Ask(fill={"id": "$job"}),
    ("GET", f"{API}/queues"): INSTANCE,
    ("GET", f"{API}/workers"): INSTANCE,
    ("GET", f"{API}/schedules"): INSTANCE,
    ("GET", f"{API}/schedules/{{name}}/runs"): Ask(fill={"name": "x"}, shows="instance"),
    ("GET", f"{API}/inbox"): Ask(),
    ("GET", f"{API}/inbox/unread"): Ask(blank=True),
    ("GET", f"{API}/push/public-key"): Ask(shows="nothing", refused=True),
    ("GET", f"{API}/messages"): Ask(),
    ("GET", f"{API}/messages/parked"): INSTANCE,
    ("GET", f"{API}/messages/{{id}}"): Ask(fill={"id": "$message"}),
    ("GET", f"{TICKETING}/venues"): Ask(),
    ("GET", f"{TICKETING}/events"): Ask(),
    ("GET", f"{TICKETING}/events/{{event_id}}/occupancy"): Ask(fill=EVENT, blank=True),
    ("GET", f"{TICKETING}/events/{{event_id}}/funnel"): Ask(fill=EVENT, blank=True),
    ("GET", f"{TICKETING}/events/{{event_id}}/orders"): Ask(fill=EVENT),
    ("GET", f"{TICKETING}/events/{{event_id}}/cancellation"): Ask(fill=EVENT, refused=True),
    ("GET", f"{TICKETING}/coupons"): Ask(),
    ("GET", f"{TICKETING}/refunds"): Ask(),
    ("GET", f"{TICKETING}/disputes"): Ask(blank=True),
    ("GET", f"{ENGAGEMENT}/users/{{user_id}}"): Ask(fill=USER, blank=True),
    ("GET", f"{ENGAGEMENT}/funnel"): Ask(blank=True),
    ("GET", f"{ENGAGEMENT}/runs"): Ask(blank=True),
    ("GET", f"{ENGAGEMENT}/returns"): Ask(blank=True),
    ("GET", f"{ENGAGEMENT}/preview"): Ask(),
    ("GET", f"{API}/senders"): Ask(blank=True),
    ("GET", f"{API}/portal-tokens"): Ask(),
    ("GET", CLINIC): Ask(),
    ("GET", f"{CLINIC}/patients"): Ask(),
    ("GET", f"{CLINIC}/patients/{{patient_id}}"): Ask(fill={"patient_id": "$patient"}),
    ("GET", f"{CLINIC}/appointments"): Ask(query={"on": "2031-06-21"}),
    ("GET", f"{CLINIC}/appointments/{{appointment_id}}"): Ask(fill=VISIT),
    ("GET", f"{CLINIC}/messages"): Ask(),
    ("GET", "/clinic/paid"): Ask(query={"appointment": "$appointment"}, shows="public"),
    ("GET", "/clinic/unpaid"): Ask(query={"appointment": "$appointment"}, shows="public"),
    ("GET", "/clinic/static/clinic.css"): Ask(shows="nothing"),
    ("GET", f"{PUBLIC}/events/{{event_id}}"): Ask(fill=EVENT, shows="public"),
    ("GET", f"{PUBLIC}/events/{{event_id}}/holds"): Ask(fill=EVENT, headers={"x-basket": "@basket"}),
    ("GET", "/api/tickets"): Ask(query={**CHECKOUT, "token": "@order_token"}),
    ("GET", "/orders/{checkout_id}/tickets/{ticket_id}/qr.png"): Ask(fill=CHECKOUT | TICKET, query=ACCESS, blank=True),
    ("GET", "/orders/{checkout_id}/calendar.ics"): Ask(fill=CHECKOUT, query=ACCESS),
    ("GET", "/orders/{checkout_id}/receipt.pdf"): Ask(fill=CHECKOUT, query=ACCESS, blank=True),
    ("GET", "/events"): Ask(shows="public"),
    ("GET", "/events/{event_id}"): Ask(fill=EVENT, shows="public"),
    ("GET", "/orders/{checkout_id}"): Ask(fill=CHECKOUT, query=ACCESS),
    ("GET", "/tickets/{ticket_id}"): Ask(fill=HELD, query={"access": "@holder_token"}),
    ("GET", "/tickets/{ticket_id}/qr.png"): Ask(fill=HELD, query={"access": "@holder_token"}, blank=True),
    ("GET", "/orders/{checkout_id}/tickets.pdf"): Ask(fill=CHECKOUT, query=ACCESS, blank=True),
    ("GET", "/orders/{checkout_id}/invoices"): Ask(fill=CHECKOUT, query=ACCESS, blank=True),
    ("GET", "/orders/{checkout_id}/invoices/{number}.pdf"): Ask(
        fill={**CHECKOUT, "number": "999"}, query=ACCESS, refused=True
    ),
    ("GET", "/orders/{checkout_id}/tickets/{ticket_id}/wallet/{kind}"): Ask(
        fill={**CHECKOUT, **TICKET, "kind": "apple"}, query=ACCESS, refused=True
    ),
    ("GET", "/tickets/{ticket_id}/ticket.pdf"): Ask(fill=HELD, query={"access": "@holder_token"}, blank=True),
    ("GET", "/tickets/{ticket_id}/wallet/{kind}"): Ask(
        fill={**HELD, "kind": "google"}, query={"access": "@holder_token"}, refused=True
    ),
    ("GET", f"{TICKETING}/invoices/{{number}}.pdf"): Ask(fill={"number": "999"}, refused=True),
    ("GET", f"{TICKETING}/orders/{{checkout_id}}/tickets.pdf"): Ask(fill=CHECKOUT, blank=True),
    ("GET", f"{TICKETING}/seller"): Ask(blank=True),
    ("GET", f"{TICKETING}/shop"): Ask(),
    ("GET", f"{TICKETING}/accounting/taxes"): Ask(query=YEARS, blank=True),
    ("GET", f"{TICKETING}/accounting/trial-balance"): Ask(query={"until": "2041-01-01T00:00:00Z"}),
    ("GET", f"{TICKETING}/accounting/periods"): Ask(blank=True),
    ("GET", f"{TICKETING}/accounting/entries.{{format}}"): Ask(fill={"format": "csv"}, query=YEARS),
    ("GET", f"{TICKETING}/accounting/settlements"): Ask(blank=True),
    ("GET", f"{TICKETING}/transfers"): Ask(blank=True),
    ("GET", f"{TICKETING}/events/{{event_id}}/ticket-types"): Ask(fill=EVENT, blank=True),
    ("GET", f"{TICKETING}/events/{{event_id}}/presale-codes"): Ask(fill=EVENT, blank=True),
    ("GET", f"{TICKETING}/events/{{event_id}}/questions"): Ask(fill=EVENT, blank=True),
    ("GET", "/organizers/{slug}"): Ask(fill={"slug": "$slug"}, shows="public", blank=True),
    # Only mails have these links, and nobody waits in these organizations.
    ("GET", "/waitlist/{entry_id}"): Ask(fill=NO_PLACE, shows="nothing", refused=True),
    ("GET", "/waitlist/{entry_id}/offer"): Ask(fill=NO_PLACE, shows="nothing", refused=True),
    ("GET", "/doors/worker.js"): NOTHING,
    ("GET", "/doors/{door_id}"): Ask(fill=DOOR, shows="nothing"),
    ("GET", f"{TICKETING}/events/{{event_id}}/doors"): Ask(fill=EVENT),
    ("GET", f"{TICKETING}/doors/{{door_id}}/link"): Ask(fill=DOOR, blank=True),
    ("GET", f"{TICKETING}/doors/{{door_id}}/link.png"): Ask(fill=DOOR, blank=True),
    ("GET", f"{TICKETING}/door/{{door_id}}"): Ask(fill=DOOR, headers=AT_DOOR),
    ("GET", f"{TICKETING}/door/{{door_id}}/tickets"): Ask(fill=DOOR, headers=AT_DOOR),
    ("GET", "/ticketing/static/{name:path}"): Ask(fill={"name": "$slug"}, shows="nothing", refused=True),
}

CHANGING: dict[tuple[str, str], Ask] = {
    ("POST", "/login/second-factor"): Ask(form={"code": "123456"}, shows="nothing"),
    ("POST", "/login/passkey"): Ask(form={"credential": "{}"}, shows="nothing", refused=True),
    ("POST", "/login/passkey/proof"): Ask(form={"credential": "{}"}, shows="nothing", refused=True),
    ("POST", "/login/confirm"): Ask(form={"code": "123456"}, shows="nothing"),
    ("POST", "/login"): Ask(form={"token": "@portal"}, shows="nothing", refused=True),
    ("PUT", f"{API}/organizations/second-factor"): Ask(json={"required": False}, headers={"X-Organization": "$slug"}),
    ("POST", f"{API}/organizations"): Ask(json={"slug": "$slug"}, shows="instance"),
    ("PUT", f"{API}/members"): Ask(json={"email": "new@example.org", "role": "viewer"}),
    ("PUT", f"{API}/secrets/{{name}}"): Ask(fill={"name": "openai.api_key"}, json={"value": "sk-1"}),
    ("POST", f"{API}/keys"): Ask(json={"name": "k", "scopes": ["viewer"]}),
    ("POST", f"{API}/notifications"): Ask(
        json={"type": "t", "recipients": ["$message_key"], "channels": ["dashboard"], "message": {"title": "t"}},
        headers={"Idempotency-Key": "$message_key"},
    ),
    ("PUT", f"{API}/event-types/{{name}}"): Ask(fill={"name": "ticket.scanned"}, json={"sample": {}}, shows="instance"),
    ("POST", f"{API}/sources"): Ask(
        json={"name": "$source", "provider": "stripe", "secrets": ["whsec_1"]}, refused=True
    ),
    ("POST", f"{API}/sources/{{source}}/secret"): Ask(fill=SOURCE, json={"secret": "whsec_mine_now"}),
    ("PUT", f"{API}/sources/{{source}}/app"): Ask(fill=SOURCE, json={"app": "mine"}),
    ("PUT", f"{API}/sources/{{source}}/limits"): Ask(fill=SOURCE, json={"requests_per_s": 1, "requests_at_once": 1}),
    ("POST", f"{API}/sources/{{source}}/pause"): Ask(fill=SOURCE),
    ("POST", f"{API}/sources/{{source}}/resume"): Ask(fill=SOURCE),
    ("POST", f"{API}/events/replay"): Ask(json={"source": "$source", **WHY}),
    ("POST", f"{API}/events/{{event}}/replay"): Ask(fill=RECEIVED, json=WHY, refused=True),
    ("POST", f"{API}/endpoints"): Ask(json={"url": "http://127.0.0.1:9009/new", "events": ["*"]}),
    ("PATCH", f"{API}/endpoints/{{endpoint_id}}"): Ask(fill=ENDPOINT, json={"description": "mine now"}),
    ("POST", f"{API}/endpoints/{{endpoint_id}}/secret"): Ask(fill=ENDPOINT, json={}),
    ("POST", f"{API}/endpoints/{{endpoint_id}}/disable"): Ask(fill=ENDPOINT),
    ("POST", f"{API}/endpoints/{{endpoint_id}}/enable"): Ask(fill=ENDPOINT),
    ("POST", f"{API}/endpoints/{{endpoint_id}}/test"): Ask(fill=ENDPOINT, json={}),
    ("POST", f"{API}/endpoints/{{endpoint_id}}/recover"): Ask(fill=ENDPOINT, json=SINCE),
    ("POST", f"{API}/endpoints/portal"): Ask(json={"endpoint_ids": ["$endpoint"]}),
    ("POST", f"{API}/deliveries/{{id}}/resend"): Ask(fill={"id": "$delivery"}),
    ("POST", f"{API}/deliveries/replay"): Ask(json={**SINCE, "endpoint_id": "$endpoint"}),
    ("POST", f"{API}/resends/{{id}}/cancel"): Ask(fill={"id": "$resend"}),
    ("PUT", f"{ENGAGEMENT}/users/{{user_id}}"): Ask(fill=USER, json={"locale": "en"}),
    ("POST", f"{ENGAGEMENT}/users/{{user_id}}/opt-out"): Ask(fill=USER, json={}),
    ("POST", f"{ENGAGEMENT}/activity"): Ask(json={"activity": [{"user_id": "$engaged", "at": "2026-01-01T00:00:00Z"}]}),
    ("POST", f"{ENGAGEMENT}/transactions"): Ask(
        json={"transactions": [{"id": "$engaged", "user_id": "$engaged", "created_at": "2026-01-01T00:00:00Z"}]}
    ),
    ("POST", f"{ENGAGEMENT}/test-messages"): Ask(json={"number": "+5511987654321"}),
    ("PUT", CLINIC): Ask(json={"name": "mine"}),
    ("POST", f"{CLINIC}/patients"): Ask(json={"name": "new"}),
    ("PUT", f"{CLINIC}/patients/{{patient_id}}"): Ask(fill={"patient_id": "$patient"}, json={"name": "mine"}),
    ("POST", f"{CLINIC}/appointments"): Ask(json={"patient_id": "$patient", "starts_at": "2031-06-22T09:00:00Z"}),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/reschedule"): Ask(
        fill=VISIT, json={"starts_at": "2031-06-21T10:00:00Z"}
    ),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/confirm"): Ask(fill=VISIT),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/payment-link"): Ask(fill=VISIT, blank=True),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/room"): Ask(fill=VISIT),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/refund"): Ask(fill=VISIT, json=WHY, refused=True),
    ("POST", f"{CLINIC}/messages/{{message_id}}/answer"): Ask(fill={"message_id": "$inbound"}, json={}),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/cancel"): Ask(fill=VISIT, json=WHY),
    ("POST", f"{CLINIC}/appointments/{{appointment_id}}/no-show"): Ask(fill=VISIT, refused=True),
    ("POST", f"{API}/publish"): Ask(
        json={"type": "ticket.scanned", "data": {}}, headers={"Idempotency-Key": "$message_key:scanned"}, refused=True
    ),
    ("POST", "/portal/endpoints/{endpoint_id}/test"): Ask(fill=ENDPOINT, cookies=PORTAL, form={"csrf": "@portal_csrf"}),
    ("POST", "/portal/deliveries/{id}/resend"): Ask(
        fill={"id": "$delivery"}, cookies=PORTAL, form={"csrf": "@portal_csrf"}
    ),
    ("POST", f"{API}/workflows/{{id}}/signals"): Ask(fill={"id": "$workflow"}, json={"name": "go"}),
    ("POST", f"{API}/workflows/{{id}}/fork"): Ask(fill={"id": "$workflow"}, json={"from_step": 1, **WHY}, refused=True),
    ("POST", f"{API}/workflows/{{id}}/retry"): Ask(fill={"id": "$dead_workflow"}, json=WHY),
    ("POST", f"{API}/workflows/{{id}}/cancel"): Ask(fill={"id": "$workflow"}, json=WHY),
    # The app of this test is made inside a function, so no other process can import and rehearse it.
    ("POST", f"{API}/rehearsals"): Ask(json={"ids": ["$dead_event"]}, refused=True),
    ("POST", f"{API}/dead-letters/replay"): Ask(json={"ids": ["$dead_event"], **WHY}),
    ("POST", f"{API}/dead-letters/discard"): Ask(json={"ids": ["$dead_event"], **WHY}),
    ("POST", f"{API}/dead-letters/{{id}}/replay"): Ask(fill={"id": "$dead_api"}, json=WHY),
    ("POST", f"{API}/dead-letters/{{id}}/discard"): Ask(fill={"id": "$dead_api_too"}, json=WHY),
    # The apps offer no job or workflow over HTTP. A message with a key of another organization is a message of one's own.
    ("POST", f"{API}/jobs"): Ask(json={"task": "$job", "args": {}}, refused=True),
    ("POST", f"{API}/jobs/many"): Ask(json={"jobs": [{"task": "$job", "args": {}}]}, refused=True),
    ("POST", f"{API}/workflows"): Ask(json={"name": "$workflow", "args": {}}, refused=True),
    ("POST", f"{API}/messages"): Ask(json={"template": "$message_key", "to": "a@b.example", "key": "k"}, refused=True),
    # No app has a job in another language: nobody holds a lease.
    ("POST", f"{API}/external-jobs/claim"): Ask(json={"tasks": ["x"]}, shows="nothing"),
    **{
        ("POST", f"{API}/external-jobs/{{job}}/{verb}"): Ask(
            fill={"job": "$job"}, json={"lease": "7", **fields}, refused=True
        )
        for verb, fields in {
            "heartbeat": {},
            "checkpoint": {"cursor": 1},
            "finish": {},
            "fail": {"error": "x"},
            "release": {},
        }.items()
    },
    ("POST", f"{API}/jobs/{{id}}/cancel"): Ask(fill={"id": "$job_api"}, json=WHY),
    ("POST", f"{API}/queues/{{name}}/pause"): Ask(fill={"name": "nobody"}, json={}, shows="instance"),
    ("POST", f"{API}/queues/{{name}}/resume"): Ask(fill={"name": "nobody"}, shows="instance"),
    ("POST", f"{API}/schedules/{{name}}/pause"): Ask(fill={"name": "x"}, shows="instance"),
    ("POST", f"{API}/schedules/{{name}}/resume"): Ask(fill={"name": "x"}, shows="instance"),
    ("POST", f"{API}/schedules/{{name}}/run"): Ask(fill={"name": "x"}, shows="instance"),
    ("POST", f"{API}/schedules/{{name}}/backfill"): Ask(
        fill={"name": "x"}, json={**SINCE, "until": "2026-01-02T00:00:00Z"}, shows="instance"
    ),
    ("POST", f"{API}/inbox/read"): Ask(json={"ids": ["$dashboard_message"]}),
    ("PUT", f"{API}/push/subscription"): Ask(json=PUSH, refused=True),
    ("DELETE", f"{API}/push/subscription"): Ask(refused=True),
    ("POST", f"{API}/messages/{{id}}/cancel"): Ask(fill={"id": "$message_api"}, json=WHY),
    ("POST", f"{API}/messages/{{id}}/resolve"): Ask(
        fill={"id": "$message"}, json={"verdict": "sent", **WHY}, refused=True
    ),
    ("POST", f"{API}/messages/resolve"): Ask(json={"ids": ["$message"], "verdict": "sent", **WHY}),
    ("PUT", f"{API}/limits/global"): Ask(json={"at_most": 5}, shows="instance"),
    ("POST", f"{TICKETING}/venues"): Ask(json={"name": "v"}),
    ("PUT", f"{TICKETING}/venues/{{venue_id}}"): Ask(fill={"venue_id": "$venue"}, json={"name": "renamed"}),
    ("PATCH", f"{TICKETING}/events/{{event_id}}"): Ask(fill=EVENT, json={"most_per_order": 9}),
    ("POST", f"{TICKETING}/events/{{event_id}}/duplicate"): Ask(
        fill=EVENT, json={"starts_at": ["2032-01-01T18:00:00Z"], "name": "x"}
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/sections"): Ask(
        fill=EVENT, json={"name": "Lawn", "price_cents": 100, "places": 5}
    ),
    ("PATCH", f"{TICKETING}/sections/{{section_id}}"): Ask(fill={"section_id": "$section"}, json={"price_cents": 1000}),
    ("PATCH", f"{TICKETING}/coupons/{{coupon_id}}"): Ask(
        fill={"coupon_id": "$coupon"}, json={"most_uses": 1000, "valid_until": None}
    ),
    ("POST", f"{TICKETING}/events"): Ask(json=NEW_EVENT),
    ("POST", f"{TICKETING}/coupons"): Ask(json={"code": "MINE-10", "event_id": "$event", "percent_bps": 10_000}),
    ("POST", f"{TICKETING}/events/{{event_id}}/block"): Ask(fill=EVENT, json={"labels": ["$label"]}),
    ("POST", f"{TICKETING}/events/{{event_id}}/unblock"): Ask(fill=EVENT, json={"labels": ["$label"]}),
    # Anybody may see what is on sale, but the seats, basket, hold or link of another buyer give no access.
    ("POST", f"{PUBLIC}/events/{{event_id}}/holds"): Ask(
        fill={"event_id": "@event"}, json={"seats": ["$free"]}, headers={"x-basket": "@basket"}
    ),
    ("POST", f"{PUBLIC}/events/{{event_id}}/holds/release"): Ask(
        fill=EVENT, json={"holds": ["$hold"]}, headers={"x-basket": "@basket"}
    ),
    ("POST", f"{PUBLIC}/checkouts"): Ask(json={**EVENT, **BUYER}, headers={"x-basket": "@basket"}),
    ("POST", f"{PUBLIC}/checkouts/{{checkout_id}}/pay"): Ask(
        fill={"checkout_id": "$started"}, json={"token": "@started_token"}, refused=True
    ),
    ("POST", f"{PUBLIC}/checkouts/{{checkout_id}}/abandon"): Ask(
        fill={"checkout_id": "$started"}, json={"token": "@started_token"}
    ),
    ("POST", "/orders/{checkout_id}/resend"): Ask(fill=CHECKOUT, json={"token": "@order_token"}),
    ("POST", "/orders/{checkout_id}/refund"): Ask(fill=CHECKOUT, json={"token": "@order_token"}, refused=True),
    ("POST", "/orders/{checkout_id}/tickets/{ticket_id}/transfer"): Ask(
        fill={"checkout_id": "@checkout"} | TICKET, json={"token": "@order_token", **BUYER}
    ),
    # The ticket that the buyer transferred, by the link of the order, and by the link of its holder.
    ("POST", "/tickets/{ticket_id}/transfer"): Ask(fill=HELD, json={"token": "@holder_token", **BUYER}),
    ("POST", f"{TICKETING}/orders/{{checkout_id}}/revoke-links"): Ask(
        fill={"checkout_id": "$started"}, json={"link_version": 1}, blank=True
    ),
    ("POST", f"{PUBLIC}/events/{{event_id}}/waitlist"): Ask(
        fill=EVENT, json={"email": "waits@example.org"}, shows="nothing", refused=True
    ),
    ("POST", "/waitlist/{entry_id}/leave"): Ask(fill=NO_PLACE, json={"token": "x"}, shows="nothing", refused=True),
    ("POST", "/orders/{checkout_id}/tickets/{ticket_id}/resell"): Ask(
        fill={**CHECKOUT, **TICKET}, json={"token": "@order_token"}, refused=True
    ),
    ("PUT", f"{TICKETING}/seller"): Ask(json={"name": "Seller"}, blank=True),
    ("POST", f"{TICKETING}/accounting/periods"): Ask(json={"until": "2026-01-01T00:00:00Z"}, blank=True),
    ("PUT", f"{TICKETING}/shop"): Ask(json={"about": "Theirs"}, blank=True),
    ("POST", f"{TICKETING}/sections/{{section_id}}/types"): Ask(
        fill={"section_id": "$section"}, json={"name": "Student", "price_cents": 500}
    ),
    ("PUT", f"{TICKETING}/ticket-types/{{type_id}}"): Ask(
        fill={"type_id": UNKNOWN_ID}, json={"price_cents": 5}, refused=True
    ),
    ("PUT", f"{TICKETING}/sections/{{section_id}}/window"): Ask(
        fill={"section_id": "$section"}, json={"is_hidden": False}, blank=True
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/presale-codes"): Ask(fill=EVENT, json={"code": "EARLY-BIRD"}),
    ("PUT", f"{TICKETING}/presale-codes/{{code_id}}"): Ask(
        fill={"code_id": UNKNOWN_ID}, json={"most_tickets": 5, "valid_until": None}, refused=True
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/questions"): Ask(fill=EVENT, json={"title": "Meal"}),
    ("POST", f"{TICKETING}/questions/{{question_id}}/end"): Ask(
        fill={"question_id": UNKNOWN_ID}, json={}, shows="nothing"
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/box-office"): Ask(
        fill=EVENT, json={"how": "cash", "seats": ["no such seat"]}, refused=True
    ),
    ("POST", f"{TICKETING}/orders/{{checkout_id}}/cash"): Ask(fill=CHECKOUT, json={}, refused=True),
    ("POST", f"{TICKETING}/transfers"): Ask(
        json={"lines": [{"line": "1", "amount_cents": 5, "currency": "EUR"}]}, blank=True
    ),
    ("POST", f"{TICKETING}/transfers/{{transfer_id}}/assign"): Ask(
        fill={"transfer_id": UNKNOWN_ID}, json=CHECKOUT, refused=True
    ),
    ("POST", f"{TICKETING}/transfers/{{transfer_id}}/dismiss"): Ask(
        fill={"transfer_id": UNKNOWN_ID}, json=WHY, refused=True
    ),
    ("POST", f"{PUBLIC}/events/{{event_id}}/holds/types"): Ask(
        fill=EVENT, json={"types": {UNKNOWN_ID: None}}, headers={"x-basket": "@basket"}, refused=True
    ),
    ("POST", "/orders/{checkout_id}/billing"): Ask(
        fill=CHECKOUT, json={"token": "@order_token", "company": "Acme"}, blank=True
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/doors"): Ask(fill=EVENT, json={"name": "Theirs"}),
    ("POST", f"{TICKETING}/door/{{door_id}}/scans"): Ask(
        fill=DOOR,
        headers=AT_DOOR,
        json={"scans": [{"presented": "$code", "scan_id": "00000000-0000-4000-8000-000000000002"}]},
    ),
    ("POST", f"{TICKETING}/door/{{door_id}}/undo"): Ask(
        fill=DOOR, headers=AT_DOOR, json={"scan_id": "00000000-0000-4000-8000-000000000002"}, refused=True
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/scans/{{scan_id}}/undo"): Ask(
        fill={**EVENT, "scan_id": "00000000-0000-4000-8000-000000000009"}, refused=True
    ),
    ("POST", f"{TICKETING}/doors/{{door_id}}/end"): Ask(fill=DOOR, blank=True),
    ("POST", f"{TICKETING}/scan"): Ask(
        json={**EVENT, "presented": "$code", "scan_id": "00000000-0000-4000-8000-000000000001"}
    ),
    ("POST", f"{TICKETING}/tickets/{{ticket_id}}/void"): Ask(fill=TICKET, json=WHY, refused=True),
    ("POST", f"{TICKETING}/refunds/{{refund_id}}/repeat"): Ask(fill={"refund_id": "$failed_refund"}),
    ("POST", f"{TICKETING}/events/{{event_id}}/dispute-policy"): Ask(fill=EVENT, json={"policy": "keep"}),
    ("POST", f"{TICKETING}/orders/{{checkout_id}}/refund"): Ask(fill=CHECKOUT, json={**WHY, "used_too": True}),
    ("POST", f"{TICKETING}/refunds/{{refund_id}}/settle"): Ask(
        fill={"refund_id": "$unpaid_refund"}, json={"note": "bank transfer"}
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/move"): Ask(
        fill=EVENT, json={"starts_at": "2032-01-01T18:00:00Z", "ends_at": "2032-01-01T21:00:00Z", **WHY}
    ),
    ("POST", f"{TICKETING}/events/{{event_id}}/status"): Ask(fill=EVENT, json={"status": "closed"}),
    ("POST", f"{TICKETING}/events/{{event_id}}/cancel"): Ask(fill=EVENT, json=WHY),
    # The link in a mail is all that its reader has; it works for its holder, for that subscription only.
    ("POST", "/preferences/{token}"): Ask(fill={"token": "x" * 43}, shows="nothing", refused=True),
    ("POST", "/unsubscribe/{token}"): Ask(fill={"token": "@unsubscribe"}, shows="nothing"),
    ("PUT", f"{API}/senders"): Ask(json={"kind": "twilio", "identifier": "$number"}, refused=True),
    ("DELETE", f"{API}/portal-tokens/{{id}}"): Ask(fill={"id": "$portal_id"}),
    ("DELETE", f"{API}/senders/{{kind}}/{{identifier}}"): Ask(fill={"kind": "twilio", "identifier": "$number"}),
    ("DELETE", f"{API}/sources/{{source}}"): Ask(fill=SOURCE),
    ("DELETE", f"{API}/endpoints/{{endpoint_id}}"): Ask(fill=ENDPOINT),
    ("DELETE", f"{API}/members/{{user_id}}"): Ask(fill={"user_id": "$user"}),
    ("DELETE", f"{API}/keys/{{key}}"): Ask(fill={"key": "$key"}),
    ("DELETE", f"{API}/secrets/{{name}}"): Ask(fill={"name": "openai.api_key"}),
}
