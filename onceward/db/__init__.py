"""PostgreSQL: connections, transactions, migrations. Imports nothing else of ours."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.db.ending import end
    from onceward.db.errors import DatabaseError, MigrationError, OutcomeUnknown, Unavailable
    from onceward.db.migrations import Migration, migrate, plan
    from onceward.db.outage import loudness
    from onceward.db.pool import Database, RawJson, dump_json
    from onceward.db.transaction import BROKEN, Cause, Connection, Role, Transaction, quote

__all__ = [
    "BROKEN",
    "Cause",
    "Connection",
    "Database",
    "DatabaseError",
    "Migration",
    "MigrationError",
    "OutcomeUnknown",
    "RawJson",
    "Role",
    "Transaction",
    "Unavailable",
    "dump_json",
    "end",
    "loudness",
    "migrate",
    "plan",
    "quote",
]

__getattr__ = lazy(__name__, __file__)
