"""The payments feature: one machine for money."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WORKER, Feature, Part, Traced

FEATURE = Feature(
    name="payments",
    after=("ledger", "inbox"),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.payments.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    parts=(
        Part("payment reconciliation", "onceward.payments.parts:reconciliation", roles=WORKER),
        Part("payment gauges", "onceward.payments.parts:gauges", roles=WORKER),
    ),
    commands=("onceward.payments.commands.payments:register",),
    routes="onceward.payments.routes:routers",
    error_handlers="onceward.payments.routes:add_error_handlers",
    pages="onceward.payments.pages:PAGES",
    checks="onceward.payments.checks:CHECKS",
    erasers="onceward.payments.erasers:ERASERS",
    metrics="onceward.payments.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
    traced=(
        Traced(
            "onceward.payments",
            "payment",
            label="r.subject_type || ' ' || r.subject_id",
            at="r.created_at",
            state="r.status",
        ),
        Traced("onceward.payment_refunds", "refund", label="r.reason", at="r.created_at", state="r.status"),
    ),
)
