"""Organizations, identities, API keys, secrets, audit and erasure. The database enforces them. Depends on `db` only."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.trust.audit import AuditEntry, list_entries, record, record_many
    from onceward.trust.erase import Eraser, Found, Person
    from onceward.trust.errors import (
        AlreadyActing,
        NotAllowed,
        NotAuthenticated,
        NotFound,
        SecretError,
        Tampered,
        TooManyFailures,
        TrustError,
        UnknownOrganization,
        UnknownSecretKey,
    )
    from onceward.trust.failures import fingerprint
    from onceward.trust.identity import COMMAND_LINE, Identity, Principal, Scope, transaction_for
    from onceward.trust.invariants import Check, Result, finds_nothing, verify
    from onceward.trust.key_ring import ring_keys, rotated
    from onceward.trust.metrics_events import record_metric, record_metrics, severity
    from onceward.trust.organizations import act_for, create_organization, find_organization, set_member
    from onceward.trust.sealed_columns import RowId, SealedColumns
    from onceward.trust.sealer import Sealer
    from onceward.trust.secrets import SecretBox, put_secret
    from onceward.trust.sessions import link_for

__all__ = [
    "COMMAND_LINE",
    "Check",
    "Eraser",
    "Found",
    "Identity",
    "NotAllowed",
    "NotAuthenticated",
    "Person",
    "create_organization",
    "find_organization",
    "finds_nothing",
    "fingerprint",
    "link_for",
    "put_secret",
    "record",
    "record_metric",
    "ring_keys",
    "rotated",
    "set_member",
]

__getattr__ = lazy(__name__, __file__)
