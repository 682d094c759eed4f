"""The lists of the desk about money: refunds, disputes, discount codes."""

from __future__ import annotations

from onceward.desk import Column, Detail, Listing
from onceward_apps.learning.desk.listings import desk
from onceward_apps.learning.desk.words import DISCOUNT_USES, DISPUTE, REFUND
from onceward_apps.learning.store import overview

REFUNDS = desk.listing(
    Listing(
        name="refunds",
        title="Refunds",
        noun="refund",
        rows="onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id",
        where=overview.OURS,
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("student", "Student", sql="p.email"),
            Column("bought", "For", sql="p.title", wide=True),
            Column("reason", "Reason"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column("status", "State", words=REFUND, tones={"done": "good", "failed": "bad"}, filter=True),
            Column("failure", "Why it failed"),
            Column("created_at", "Requested", kind="time", sort=True, filter=True),
        ),
        empty="Refunds of enrolments and extensions appear here.",
    )
)
desk.listing(
    Listing(
        name="disputes",
        title="Disputes",
        noun="dispute",
        rows="onceward.payment_disputes r join onceward.payments p on p.id = r.payment_id",
        where=overview.OURS,
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("student", "Student", sql="p.email"),
            Column("bought", "For", sql="p.title", wide=True),
            Column("reason", "Reason"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column(
                "status", "State", words=DISPUTE, tones={"open": "bad", "inquiry": "warn", "won": "good"}, filter=True
            ),
            Column("reference", "At the service"),
            Column("created_at", "Opened", kind="time", sort=True),
        ),
        empty="If the bank of a student asks for a payment back, it appears here.",
    )
)
DISCOUNTS = desk.listing(
    Listing(
        name="discounts",
        title="Discount codes",
        noun="discount code",
        rows="learning.discount_codes r left join learning.cohorts c on c.id = r.cohort_id",
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("code", "Code"),
            Column("lowers", "Lowers the price by", sql="coalesce(r.percent || ' %', '')"),
            Column("amount", "Or by", kind="money", currency="r.currency"),
            Column("cohort", "Cohort", sql="coalesce(c.name, 'Every cohort')"),
            Column("uses", "Used", sql=DISCOUNT_USES),
            Column("valid_until", "Until", kind="time"),
            Column("created_at", "Since", kind="time", sort=True),
        ),
        empty="Add a code with the button above. People enter it on the page of a cohort.",
    ),
    detail=Detail(title="r.code", also=("Discount",), words={"discount_added": "Added", "discount_changed": "Changed"}),
)
