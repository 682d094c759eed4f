"""The desks of the apps in the table: their lists, files, pages of rows, forms and actions."""

from __future__ import annotations

from tests.trust.crosswise.routes import NOTHING, WHY, Ask

D = "/dashboard"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
LISTS = {
    "learning": (
        *("cohorts", "sessions", "items", "students", "enrolments", "waitlist", "refunds", "disputes"),
        *("discounts", "seats", "submissions", "chat"),
    ),
    "ticketing": (
        *("events", "sections", "orders", "tickets", "entries", "coupons", "doors", "invoices", "waitlist"),
        *("types", "codes", "questions", "transfers", "settlements", "venues"),
    ),
    "clinic": ("appointments", "payments", "patients", "doctors", "inbox"),
    "engagement": ("users", "runs"),
    "coursegen": ("courses", "calls"),
}
EMPTY = (
    "learning/disputes",
    "learning/discounts",
    "ticketing/entries",
    "ticketing/invoices",
    "ticketing/waitlist",
    "ticketing/types",
    "ticketing/codes",
    "ticketing/questions",
    "ticketing/transfers",
    "ticketing/settlements",
    "engagement/runs",
    "engagement/users",
    "coursegen/calls",
    "clinic/payments",
)
"""Lists without a row, or without a name that belongs to one organization."""
ROWS = {
    "learning/cohorts": "$cohort",
    "learning/students": "$student",
    "learning/enrolments": "$enrollment",
    "learning/sessions": "$session",
    "learning/seats": "$seats",
    "learning/discounts": "$discount",
    "learning/submissions": "$work",
    "learning/items": "$item",
    "learning/waitlist": "$waiting",
    "ticketing/events": "$event",
    "ticketing/sections": "$section",
    "ticketing/orders": "$checkout",
    "ticketing/tickets": "$ticket",
    "ticketing/doors": "$door",
    "clinic/appointments": "$appointment",
    "clinic/patients": "$patient",
    "clinic/doctors": "$doctor",
    "clinic/inbox": "$inbound",
    "engagement/users": "$engaged",
    "coursegen/courses": "$course",
}
ASKING = {
    **{f"learning/cohorts/do/{name}": "$cohort" for name in ("duplicate", "enrol", "add_session", "add_item")},
    **{f"learning/sessions/do/{name}": "$session" for name in ("cancel", "set_recording")},
    **{f"learning/waitlist/do/{name}": "$waiting" for name in ("prioritise", "remove")},
    "learning/items/do/remove_item": "$item",
    "learning/items/do/set_questions": "$item",
    "learning/cohorts/do/reserve_seats": "$cohort",
    "learning/cohorts/do/write": "$cohort",
    "learning/seats/do/send_seats_link": "$seats",
    "learning/seats/do/end_seats": "$seats",
    "learning/discounts/do/change_code": "$discount",
    "learning/submissions/do/grade": "$work",
    "learning/chat/do/moderate": "$chat_message",
    "learning/enrolments/do/refund_a_part": "$enrollment",
    "ticketing/events/do/open_sale": "$event",
    "ticketing/events/do/close": "$event",
    **{
        f"ticketing/events/do/{name}": "$event"
        for name in ("edit", "move", "duplicate", "cancel", "open_door", "add_code", "add_question", "sell")
    },
    **{f"ticketing/events/do/{name}": "$event" for name in ("add_section", "block")},
    "ticketing/tickets/do/transfer": "$ticket",
    **{f"ticketing/sections/do/{name}": "$section" for name in ("add_type", "set_window")},
    **{f"ticketing/doors/do/{name}": "$door" for name in ("show_link", "end_door")},
    **{f"ticketing/orders/do/{name}": "$checkout" for name in ("resend", "correct", "refund", "set_company")},
    "ticketing/sections/do/change_section": "$section",
    "ticketing/coupons/do/change_coupon": "$coupon",
    "ticketing/tickets/do/void": "$ticket",
    **{
        f"clinic/appointments/do/{name}": "$visit"
        for name in ("confirm", "no_show", "cancel", "restore", "write", "create_room", "send_link")
    },
    "clinic/appointments/do/refund": "$visit",
    "clinic/patients/do/book": "$patient",
    "clinic/inbox/do/answer": "$question",
    "clinic/inbox/do/close": "$question",
    "engagement/users/do/stop": "$engaged",
    "engagement/users/do/allow": "$engaged",
}
OF_NO_ROW = (
    "types/do/change_type",
    "codes/do/change_code",
    "questions/do/end_question",
    "transfers/do/assign",
    "transfers/do/dismiss",
)
"""Actions on rows that these organizations do not have."""
PAGES: dict[tuple[str, str], Ask] = {
    **{("GET", f"{D}/{desk}"): Ask(blank=True) for desk in ("learning", "ticketing", "clinic")},
    **{
        ("GET", f"{D}/{desk}/{name}{end}"): Ask(blank=end == ".xlsx" or f"{desk}/{name}" in EMPTY)
        for desk, names in LISTS.items()
        for name in names
        for end in ("", ".csv", ".xlsx")
    },
    **{
        ("GET", f"{D}/{path}/row/{{id}}"): Ask(
            fill={"id": id}, blank=path in ("engagement/users", "clinic/inbox", "learning/discounts")
        )
        for path, id in ROWS.items()
    },
    **{("GET", f"{D}/{path}"): Ask(query={"ids": id}, blank=True) for path, id in ASKING.items()},
    ("GET", f"{D}/learning/runs/{{id}}"): Ask(fill={"id": "1"}, shows="nothing"),
    ("GET", f"{D}/ticketing/runs/{{id}}"): Ask(fill={"id": "1"}, shows="nothing"),
    ("GET", f"{D}/learning/cohorts/do/create"): NOTHING,
    ("GET", f"{D}/learning/discounts/do/add_code"): NOTHING,
    ("GET", f"{D}/learning/cohorts/do/resize"): Ask(query={"ids": "$cohort"}, blank=True),
    ("GET", f"{D}/learning/cohorts/do/edit"): Ask(query={"ids": "$cohort"}),
    ("GET", f"{D}/learning/sessions/do/change"): Ask(query={"ids": "$session"}),
    ("GET", f"{D}/learning/sessions/do/check_off"): Ask(query={"ids": "$session"}, shows="nothing"),
    ("GET", f"{D}/learning/items/do/edit_item"): Ask(query={"ids": "$item"}),
    ("GET", f"{D}/learning/cohorts/do/change_state"): Ask(query={"ids": "$cohort"}, shows="nothing"),
    ("GET", f"{D}/learning/enrolments/do/refund"): Ask(query={"ids": "$enrollment"}, shows="nothing"),
    ("GET", f"{D}/learning/enrolments/do/revoke"): Ask(query={"ids": "$enrollment"}, shows="nothing"),
    ("GET", f"{D}/learning/students/do/correct_name"): Ask(query={"ids": "$student"}),
    ("GET", f"{D}/learning/enrolments/do/move"): Ask(query={"ids": "$enrollment"}, shows="nothing"),
    ("GET", f"{D}/learning/refunds/do/repeat"): Ask(query={"ids": "$course_refund"}, shows="nothing"),
    ("GET", f"{D}/ticketing/coupons/do/add_coupon"): NOTHING,
    ("GET", f"{D}/ticketing/venues/do/add_venue"): NOTHING,
    ("GET", f"{D}/ticketing/events/do/add_event"): NOTHING,
    ("GET", f"{D}/ticketing/venues/do/change_venue"): Ask(query={"ids": "$venue"}),
    ("GET", f"{D}/ticketing/events/do/unblock"): Ask(query={"ids": "$event"}, shows="nothing"),
    ("GET", f"{D}/ticketing/invoices/do/set_seller"): NOTHING,
    ("GET", f"{D}/ticketing/events/do/set_shop"): NOTHING,
    ("GET", f"{D}/ticketing/transfers/do/record"): NOTHING,
    ("GET", f"{D}/ticketing/settlements/do/close_books"): NOTHING,
    ("GET", f"{D}/ticketing/settlements/row/{{id}}"): Ask(fill={"id": UNKNOWN}, refused=True),
    ("GET", f"{D}/ticketing/transfers/row/{{id}}"): Ask(fill={"id": UNKNOWN}, refused=True),
    ("GET", f"{D}/ticketing/orders/do/take_cash"): Ask(query={"ids": "$checkout"}, shows="nothing"),
    **{("GET", f"{D}/ticketing/{path}"): Ask(query={"ids": UNKNOWN}, shows="nothing") for path in OF_NO_ROW},
    ("GET", f"{D}/ticketing/invoices/row/{{id}}"): Ask(fill={"id": "999"}, refused=True),
    ("GET", f"{D}/ticketing/entries/do/undo_scan"): Ask(query={"ids": UNKNOWN}, shows="nothing"),
    ("GET", f"{D}/clinic/patients/do/add_patient"): NOTHING,
    ("GET", f"{D}/clinic/doctors/do/add_doctor"): NOTHING,
    ("GET", f"{D}/clinic/appointments/do/move"): Ask(query={"ids": "$visit"}, blank=True),
    ("GET", f"{D}/clinic/patients/do/edit"): Ask(query={"ids": "$patient"}),
}


def run(ids: str, **given: str) -> Ask:
    return Ask(form={"ids": ids, "step": "run", **given}, blank=True)


def attempt(ids: str, **given: str) -> Ask:
    """Only what it would do: the API does it later."""
    return Ask(form={"ids": ids, "step": "try", **given}, blank=True)


BUTTONS: dict[tuple[str, str], Ask] = {
    ("POST", f"{D}/clinic/appointments/do/confirm"): run("$visit"),
    ("POST", f"{D}/clinic/appointments/do/create_room"): run("$visit"),
    ("POST", f"{D}/clinic/appointments/do/send_link"): run("$visit"),
    ("POST", f"{D}/clinic/appointments/do/move"): run("$visit", starts_at="2031-06-22T09:30", duration_minutes="30"),
    ("POST", f"{D}/clinic/appointments/do/refund"): run("$visit", **WHY),
    ("POST", f"{D}/clinic/appointments/do/cancel"): run("$visit", reason="a test"),
    ("POST", f"{D}/clinic/appointments/do/no_show"): run("$visit"),
    ("POST", f"{D}/clinic/appointments/do/restore"): attempt("$visit"),
    ("POST", f"{D}/clinic/appointments/do/write"): attempt("$visit", text="x"),
    ("POST", f"{D}/clinic/patients/do/book"): attempt("$patient", starts_at="2031-06-25T09:30", duration_minutes="30"),
    ("POST", f"{D}/clinic/patients/do/add_patient"): Ask(form={"name": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/clinic/doctors/do/add_doctor"): Ask(form={"name": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/clinic/patients/do/edit"): run("$patient", name="x"),
    ("POST", f"{D}/clinic/inbox/do/answer"): attempt("$question", text="x"),
    ("POST", f"{D}/clinic/inbox/do/close"): run("$question"),
    ("POST", f"{D}/ticketing/events/do/close"): attempt("$event"),
    ("POST", f"{D}/ticketing/events/do/open_sale"): attempt("$event"),
    ("POST", f"{D}/ticketing/events/do/edit"): attempt("$event", name="x", most_per_order="9"),
    ("POST", f"{D}/ticketing/events/do/move"): attempt(
        "$event", starts_at="2032-01-01T18:00", ends_at="2032-01-01T21:00", **WHY
    ),
    ("POST", f"{D}/ticketing/events/do/duplicate"): attempt(
        "$event", starts_at="2032-01-01T18:00", times="1", every_days="7"
    ),
    ("POST", f"{D}/ticketing/events/do/cancel"): attempt("$event", **WHY),
    ("POST", f"{D}/ticketing/events/do/add_section"): attempt(
        "$event", section="x", places="5", price="5", **{"price.currency": "EUR"}
    ),
    ("POST", f"{D}/ticketing/events/do/block"): attempt("$event", seats="$label"),
    ("POST", f"{D}/ticketing/events/do/unblock"): Ask(
        form={"ids": "$event", "seats": "x", "step": "try"}, shows="nothing"
    ),
    ("POST", f"{D}/ticketing/tickets/do/transfer"): attempt("$ticket", email="x@example.org"),
    ("POST", f"{D}/ticketing/venues/do/add_venue"): Ask(form={"name": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/ticketing/venues/do/change_venue"): attempt("$venue", name="x", timezone="UTC"),
    ("POST", f"{D}/ticketing/events/do/add_event"): Ask(form={"name": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/ticketing/sections/do/change_section"): Ask(
        form={"ids": "$section", "step": "try", "price": "10", "price.currency": "EUR"}, blank=True
    ),
    ("POST", f"{D}/ticketing/events/do/set_shop"): Ask(form={"about": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/ticketing/settlements/do/close_books"): Ask(
        form={"until": "2026-01-01T00:00", "step": "try"}, shows="nothing"
    ),
    ("POST", f"{D}/ticketing/transfers/do/record"): Ask(form={"lines": "1;5;EUR;x", "step": "try"}, shows="nothing"),
    **{
        ("POST", f"{D}/ticketing/{path}"): Ask(form={"ids": UNKNOWN, "step": "try"}, shows="nothing")
        for path in OF_NO_ROW
    },
    ("POST", f"{D}/ticketing/orders/do/take_cash"): Ask(form={"ids": "$checkout", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/ticketing/sections/do/add_type"): attempt(
        "$section", name="x", price="5", **{"price.currency": "EUR"}
    ),
    ("POST", f"{D}/ticketing/sections/do/set_window"): Ask(
        form={"ids": "$section", "is_hidden": "on", "step": "try"}, blank=True
    ),
    ("POST", f"{D}/ticketing/events/do/add_code"): attempt("$event", code="EARLY-BIRD"),
    ("POST", f"{D}/ticketing/events/do/add_question"): attempt("$event", title="x", about="order"),
    ("POST", f"{D}/ticketing/events/do/sell"): attempt("$event", how="cash", section="x", places="1"),
    ("POST", f"{D}/ticketing/invoices/do/set_seller"): Ask(form={"name": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/ticketing/orders/do/set_company"): attempt("$checkout", company="x"),
    ("POST", f"{D}/ticketing/events/do/open_door"): attempt("$event", name="x"),
    ("POST", f"{D}/ticketing/doors/do/show_link"): attempt("$door"),
    ("POST", f"{D}/ticketing/doors/do/end_door"): attempt("$door"),
    ("POST", f"{D}/ticketing/entries/do/undo_scan"): Ask(form={"ids": UNKNOWN, "step": "try"}, shows="nothing"),
    ("POST", f"{D}/ticketing/coupons/do/change_coupon"): attempt("$coupon", most_uses="9"),
    ("POST", f"{D}/ticketing/orders/do/resend"): attempt("$checkout"),
    ("POST", f"{D}/ticketing/orders/do/correct"): attempt("$checkout", email="x@example.org"),
    ("POST", f"{D}/ticketing/orders/do/refund"): attempt("$checkout", **WHY),
    ("POST", f"{D}/ticketing/tickets/do/void"): attempt("$ticket", **WHY),
    ("POST", f"{D}/ticketing/coupons/do/add_coupon"): Ask(form={"code": "AUTUMN", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/engagement/users/do/stop"): attempt("$engaged", reason="asked"),
    ("POST", f"{D}/engagement/users/do/allow"): attempt("$engaged"),
    ("POST", f"{D}/learning/refunds/do/repeat"): Ask(form={"ids": "$course_refund", "step": "run"}),
    ("POST", f"{D}/learning/enrolments/do/move"): Ask(
        form={"ids": "$enrollment", "step": "run", "cohort": "no such cohort", **WHY}
    ),
    ("POST", f"{D}/learning/enrolments/do/revoke"): attempt("$enrollment", **WHY),
    ("POST", f"{D}/learning/students/do/correct_name"): attempt("$student", name="x", **WHY),
    ("POST", f"{D}/learning/enrolments/do/refund"): attempt("$enrollment", **WHY),
    ("POST", f"{D}/learning/cohorts/do/create"): Ask(form={"name": "x", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/learning/cohorts/do/duplicate"): attempt("$cohort", name="x", starts_at="2031-01-01T09:00"),
    ("POST", f"{D}/learning/cohorts/do/enrol"): attempt("$cohort", people="x@example.org", **WHY),
    ("POST", f"{D}/learning/cohorts/do/add_session"): attempt("$cohort", title="x", starts_at="2031-01-01T09:00"),
    ("POST", f"{D}/learning/cohorts/do/add_item"): attempt("$cohort", title="x"),
    ("POST", f"{D}/learning/cohorts/do/edit"): Ask(form={"ids": "$cohort", "name": "x", "step": "try"}, blank=True),
    ("POST", f"{D}/learning/sessions/do/change"): Ask(
        form={"ids": "$session", "title": "x", "step": "try"}, blank=True
    ),
    ("POST", f"{D}/learning/sessions/do/cancel"): attempt("$session", **WHY),
    ("POST", f"{D}/learning/sessions/do/set_recording"): attempt("$session", url="https://video.example/2"),
    ("POST", f"{D}/learning/sessions/do/check_off"): attempt("$session", absent="x@example.org"),
    ("POST", f"{D}/learning/items/do/edit_item"): Ask(form={"ids": "$item", "title": "x", "step": "try"}, blank=True),
    ("POST", f"{D}/learning/waitlist/do/prioritise"): attempt("$waiting", priority="5"),
    ("POST", f"{D}/learning/waitlist/do/remove"): attempt("$waiting", **WHY),
    ("POST", f"{D}/learning/items/do/remove_item"): attempt("$item"),
    ("POST", f"{D}/learning/items/do/set_questions"): attempt("$item", questions=""),
    ("POST", f"{D}/learning/cohorts/do/reserve_seats"): attempt(
        "$cohort", company="x", number="1", contact_email="x@example.org"
    ),
    ("POST", f"{D}/learning/cohorts/do/write"): attempt("$cohort", author="x", message="x"),
    ("POST", f"{D}/learning/seats/do/send_seats_link"): attempt("$seats"),
    ("POST", f"{D}/learning/seats/do/end_seats"): attempt("$seats", **WHY),
    ("POST", f"{D}/learning/discounts/do/add_code"): Ask(form={"code": "AUTUMN", "step": "try"}, shows="nothing"),
    ("POST", f"{D}/learning/discounts/do/change_code"): attempt("$discount", most_uses="9"),
    ("POST", f"{D}/learning/submissions/do/grade"): attempt("$work", verdict="PASSED"),
    ("POST", f"{D}/learning/chat/do/moderate"): attempt("$chat_message", **WHY),
    ("POST", f"{D}/learning/enrolments/do/refund_a_part"): Ask(
        form={"ids": "$enrollment", "step": "try", "amount": "1", "amount.currency": "EUR", **WHY}, blank=True
    ),
    ("POST", f"{D}/learning/cohorts/do/resize"): Ask(form={"ids": "$cohort", "max_capacity": "12", "step": "run"}),
    ("POST", f"{D}/learning/cohorts/do/change_state"): attempt("$cohort", status="CANCELLED", **WHY),
}
