"""The dashboard's part of the table: pages, and what their buttons do."""

from __future__ import annotations

from tests.trust.crosswise import coursegen, desks
from tests.trust.crosswise.learning_routes import LEARNING
from tests.trust.crosswise.routes import CHANGING, INSTANCE, NOTHING, READING, WHY, Ask

D = "/dashboard"
MONEY = ("payments", "refunds", "batches", "disputes", "payouts", "differences")
PAGES: dict[tuple[str, str], Ask] = {
    **desks.PAGES,
    ("GET", "/"): Ask(blank=True),
    ("GET", D): NOTHING,
    ("GET", "/favicon.ico"): Ask(shows="nothing"),
    ("GET", f"{D}/static/{{version}}/{{name}}"): Ask(fill={"version": "1", "name": "app.js"}, shows="nothing"),
    ("GET", f"{D}/organizations"): Ask(blank=True),
    ("GET", f"{D}/templates/{{name}}/preview"): Ask(fill={"name": "order-confirmation"}, shows="nothing"),
    ("GET", f"{D}/templates"): NOTHING,
    ("GET", f"{D}/templates/{{name}}"): Ask(fill={"name": "order-confirmation"}, shows="nothing"),
    ("GET", f"{D}/search"): Ask(query={"q": "$event_id"}, blank=True),
    ("GET", f"{D}/dead-letters"): Ask(),
    ("GET", f"{D}/dead-letters/replay"): Ask(query={"ids": "$dead"}),
    ("GET", f"{D}/rehearse/{{id}}"): Ask(fill={"id": "$dead_event"}, shows="nothing"),
    ("GET", f"{D}/dead-letters/discard"): Ask(query={"ids": "$dead"}),
    ("GET", f"{D}/dead-letters/progress"): Ask(query={"after": "1", "until": "8000000000000"}, blank=True),
    ("GET", f"{D}/consequences/{{id}}"): Ask(fill={"id": "$published"}),
    ("GET", f"{D}/notifications"): Ask(),
    ("GET", f"{D}/notifications/bell"): Ask(blank=True),
    ("GET", f"{D}/message-report"): NOTHING,
    ("GET", f"{D}/message-report.csv"): NOTHING,
    ("GET", f"{D}/sending"): Ask(blank=True),
    ("GET", f"{D}/queues"): INSTANCE,
    ("GET", f"{D}/workers"): INSTANCE,
    ("GET", f"{D}/schedules"): INSTANCE,
    ("GET", f"{D}/schedules/{{name}}"): Ask(fill={"name": "x"}, shows="instance"),
    ("GET", f"{D}/live"): INSTANCE,
    ("GET", f"{D}/sources"): Ask(),
    ("GET", f"{D}/endpoints"): Ask(),
    ("GET", f"{D}/keys"): Ask(),
    ("GET", f"{D}/members"): Ask(),
    ("GET", f"{D}/account"): NOTHING,
    ("GET", f"{D}/account/passkeys/options"): NOTHING,
    ("GET", f"{D}/ledger"): Ask(),
    ("GET", f"{D}/ledger/{{currency}}/{{code:path}}"): Ask(fill={"currency": "EUR", "code:path": "$account"}),
    ("GET", f"{D}/audit"): Ask(),
    ("GET", f"{D}/engagement"): Ask(blank=True),
    ("GET", f"{D}/engagement/preview"): Ask(),
    ("GET", f"{D}/engagement/user"): Ask(query={"id": "$engaged"}, blank=True),
    **{
        ("GET", f"{D}/{slug}{end}"): Ask(blank=end == ".xlsx")
        for slug in ("events", "jobs", "messages", "deliveries", "workflows")
        for end in ("", ".csv", ".xlsx")
    },
    ("GET", f"{D}/events/{{id}}"): Ask(fill={"id": "$inbox_event"}),
    ("GET", f"{D}/payments"): NOTHING,
    **{("GET", f"{D}/payments/{name}"): Ask(blank=name not in MONEY[:3]) for name in MONEY},
    **{("GET", f"{D}/payments/{name}.csv"): Ask(blank=name not in MONEY[:3]) for name in MONEY},
    **{("GET", f"{D}/payments/{name}.xlsx"): Ask(blank=True) for name in MONEY},
    ("GET", f"{D}/payments/payments/row/{{id}}"): Ask(fill={"id": "$payment"}),
    ("GET", f"{D}/payments/refunds/row/{{id}}"): Ask(fill={"id": "$refund_to_repeat"}),
    ("GET", f"{D}/payments/payments/do/refund"): Ask(query={"ids": "$payment"}, shows="nothing"),
    ("GET", f"{D}/payments/refunds/do/repeat"): Ask(query={"ids": "$refund_to_repeat"}, shows="nothing"),
    ("GET", f"{D}/payments/refunds/do/settle"): Ask(query={"ids": "$refund_to_settle"}, shows="nothing"),
    ("GET", f"{D}/jobs/{{id}}"): Ask(fill={"id": "$dead"}),
    ("GET", f"{D}/messages/{{id}}"): Ask(fill={"id": "$message"}),
    ("GET", f"{D}/deliveries/{{id}}"): Ask(fill={"id": "$delivery"}),
    ("GET", f"{D}/workflows/{{id}}"): Ask(fill={"id": "$workflow"}),
}
BUTTONS: dict[tuple[str, str], Ask] = {
    **desks.BUTTONS,
    ("POST", f"{D}/payments/payments/do/refund"): Ask(form={"ids": "$payment", "step": "try", **WHY}, blank=True),
    ("POST", f"{D}/payments/refunds/do/repeat"): Ask(form={"ids": "$refund_to_repeat", "step": "run"}),
    ("POST", f"{D}/payments/refunds/do/settle"): Ask(form={"ids": "$refund_to_settle", "note": "cash", "step": "run"}),
    ("POST", f"{D}/desk/notes"): Ask(form={"listing": "learning.cohorts", "id": "$cohort", "body": "x"}),
    ("POST", f"{D}/desk/views"): Ask(form={"listing": "learning.cohorts", "name": "x"}, shows="nothing"),
    ("POST", f"{D}/desk/views/remove"): Ask(form={"listing": "learning.cohorts", "name": "x"}, shows="nothing"),
    ("POST", f"{D}/organizations"): Ask(form={"organization": "$slug"}, shows="nothing"),
    # What a person does to their own account. The ids are random, and belong to nobody.
    ("POST", f"{D}/account/sessions/end"): Ask(
        form={"session": "00000000-0000-0000-0000-000000000001"}, shows="nothing"
    ),
    ("POST", f"{D}/account/sessions/end-all"): NOTHING,
    ("POST", f"{D}/account/totp"): NOTHING,
    ("POST", f"{D}/account/totp/confirm"): Ask(form={"code": "123456"}, shows="nothing"),
    ("POST", f"{D}/account/factors/remove"): Ask(
        form={"factor": "00000000-0000-0000-0000-000000000001"}, shows="nothing"
    ),
    ("POST", f"{D}/account/recovery"): NOTHING,
    ("POST", f"{D}/account/passkeys"): NOTHING,
    ("POST", f"{D}/theme"): Ask(form={"theme": "dark"}, shows="nothing"),
    ("POST", f"{D}/language"): Ask(form={"language": "pt"}, shows="nothing"),
    ("GET", f"{D}/look"): Ask(blank=True),
    **{("GET", f"{D}/look/organizations{end}"): Ask(blank=end == ".xlsx") for end in ("", ".csv", ".xlsx")},
    ("GET", f"{D}/look/organizations/row/{{id}}"): Ask(fill={"id": "$organization"}),
    ("GET", f"{D}/look/organizations/do/change_look"): Ask(query={"ids": "$organization"}, blank=True),
    ("POST", f"{D}/look/organizations/do/change_look"): Ask(form={"ids": "$organization", "step": "try"}, blank=True),
    ("POST", f"{D}/templates/test"): Ask(
        form={"name": "order-confirmation", "language": "en"}, shows="nothing", refused=True
    ),
    ("POST", f"{D}/sending/suppress"): Ask(form={"address": "new@example.org", **WHY}, shows="nothing"),
    ("POST", f"{D}/sending/allow"): Ask(form={"address": "nobody@example.org", **WHY}, refused=True, shows="nothing"),
    ("POST", f"{D}/notifications/read"): Ask(form={"id": "$dashboard_message"}),
    ("POST", f"{D}/dead-letters/replay"): Ask(form={"ids": "$dead_event", **WHY}),
    ("POST", f"{D}/dead-letters/discard"): Ask(form={"ids": "$dead", **WHY}),
    **{
        ("POST", f"{D}/{what}"): Ask(form={"queue": "default", "schedule": "x", **WHY}, shows="instance")
        for what in ("queues/pause", "queues/resume", "schedules/pause", "schedules/resume", "schedules/run")
    },
    ("POST", f"{D}/sources"): Ask(form={"name": "new-$slug", "provider": "stripe", "secret": "whsec_new"}),
    ("POST", f"{D}/sources/secret"): Ask(form={"source": "$source", "secret": "whsec_mine_now", "overlap": "a day"}),
    ("POST", f"{D}/sources/detect"): Ask(form={"capture": "x-signature: 00\n\n{}", "secret": "any"}),
    ("POST", f"{D}/sources/pause"): Ask(form={"source": "$source"}),
    ("POST", f"{D}/sources/resume"): Ask(form={"source": "$source"}),
    ("POST", f"{D}/endpoints/disable"): Ask(form={"endpoint": "$endpoint"}),
    ("POST", f"{D}/endpoints/enable"): Ask(form={"endpoint": "$endpoint"}),
    ("POST", f"{D}/endpoints/test"): Ask(form={"endpoint": "$endpoint"}),
    ("POST", f"{D}/deliveries/{{id}}/resend"): Ask(fill={"id": "$delivery"}),
    ("POST", f"{D}/engagement/opt-out"): Ask(form={"user": "$engaged"}),
    ("POST", f"{D}/engagement/test"): Ask(form={"number": "+5511987654321"}),
    ("POST", f"{D}/engagement/pause"): Ask(form={"campaign": "goodbye"}),
    ("POST", f"{D}/engagement/resume"): Ask(form={"campaign": "weekly_review"}),
    ("POST", f"{D}/keys"): Ask(form={"name": "k", "scope": "viewer"}),
    ("POST", f"{D}/keys/revoke"): Ask(form={"key": "$key"}),
    ("POST", f"{D}/members/second-factor"): Ask(form={"required": "no", "confirmed": "yes"}),
    ("POST", f"{D}/workflows/{{id}}/retry"): Ask(fill={"id": "$dead_workflow"}, refused=True),
    ("POST", f"{D}/jobs/{{id}}/cancel"): Ask(fill={"id": "$job"}, form=WHY),
    ("POST", f"{D}/events/{{id}}/cancel"): Ask(fill={"id": "$inbox_event"}, form=WHY),
    ("POST", f"{D}/messages/{{id}}/cancel"): Ask(fill={"id": "$message"}, form=WHY),
    ("POST", f"{D}/deliveries/{{id}}/cancel"): Ask(fill={"id": "$delivery"}, form=WHY),
    ("POST", f"{D}/workflows/{{id}}/cancel"): Ask(fill={"id": "$workflow"}, form=WHY, refused=True),
    ("POST", "/logout"): Ask(shows="nothing"),
}
# Buttons before the changes of the API, which delete things; logging out comes last.
# Its owner has deleted it over the API by then.
LAST = {("POST", f"{D}/sources/delete"): Ask(form={"source": "$source"}, refused=True)}
ROUTES: dict[tuple[str, str], Ask] = (
    READING | coursegen.READING | PAGES | coursegen.PAGES | BUTTONS | coursegen.CHANGING | CHANGING | LEARNING | LAST
)
ROUTES["POST", "/logout"] = ROUTES.pop(("POST", "/logout"))
