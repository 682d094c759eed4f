"""PostgreSQL: connections, transactions and migrations."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.db.backoff import Backoff, retry
    from onceward.db.errors import (
        BROKEN,
        FAILED,
        OUTAGE,
        DatabaseError,
        MigrationError,
        OutcomeUnknown,
        RoleChanged,
        RoleRefused,
        RolledBack,
        TransactionEnded,
        Unavailable,
    )
    from onceward.db.functions import FunctionFile
    from onceward.db.lock_waits import LockWaits, Patience
    from onceward.db.lost import lost_connection, note_lost_connection
    from onceward.db.migration_files import Migration
    from onceward.db.migration_plan import Pending, plan
    from onceward.db.migrations import migrate
    from onceward.db.outage import loudness
    from onceward.db.pool import ENGINE_ROLE, Database, RawJson, dump_json
    from onceward.db.server_start import wait_for_server
    from onceward.db.text import clean_json, clean_text, is_storable, json_contains_nul
    from onceward.db.transaction import Cause, Connection, Role, Transaction, literal, quote

__all__ = [
    "BROKEN",
    "Connection",
    "Database",
    "Transaction",
    "Unavailable",
    "migrate",
]

__getattr__ = lazy(__name__, __file__)
