"""The feature `trust`: organizations, identities, audit, secrets, causes and erasure."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import Feature, Part, SealedColumn, Traced

FEATURE = Feature(
    name="trust",
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.trust.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    before_migrations=Path(__file__).parent / "roles.sql",
    settings="onceward.trust.settings:TrustSettings",
    parts=(
        Part("audit sealer", "onceward.trust.parts:sealer"),
        Part("audit anchors", "onceward.trust.parts:anchors"),
        Part("expired logins", "onceward.trust.parts:expired_logins"),
        Part("unfinished erasures", "onceward.trust.parts:unfinished_erasures"),
    ),
    commands=("onceward.trust.commands:register",),
    routes="onceward.trust.routes:routers",
    pages="onceward.trust.pages:PAGES",
    configuration="onceward.trust.configuration:SECTIONS",
    checks="onceward.trust.checks:CHECKS",
    erasers="onceward.trust.erasers:ERASERS",
    traced=(Traced("onceward.audit_log", "audit", label="r.action", at="r.at", state="'recorded'"),),
    sealed=(
        SealedColumn("onceward.audit_keys", "key_id", "key"),
        SealedColumn("onceward.secrets", "secret_id", "value"),
        SealedColumn("onceward.second_factors", "factor_id", "secret"),
        SealedColumn("onceward.signing_keys", "key_id", "private_key"),
    ),
    metrics="onceward.trust.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
    errors=("onceward.trust.errors:TrustError", "onceward.configuration:ConfigurationRefused"),
    sqlstates="onceward.trust.sqlstates:SQLSTATES",
)
