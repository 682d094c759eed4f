"""PostgreSQL: connections, transactions, migrations. Imports nothing else of ours."""

from onceward.db.ending import end
from onceward.db.errors import DatabaseError, MigrationError, OutcomeUnknown, Unavailable
from onceward.db.lost import lost_connection, note_lost_connection
from onceward.db.migrate import Line, Migration, migrate, plan
from onceward.db.outage import loudness
from onceward.db.pool import Database, RawJson, dump_json
from onceward.db.transaction import BROKEN, Cause, CauseKind, Connection, Role, Transaction, quote

__all__ = [
    "BROKEN",
    "Cause",
    "CauseKind",
    "Connection",
    "Database",
    "DatabaseError",
    "Line",
    "Migration",
    "MigrationError",
    "OutcomeUnknown",
    "RawJson",
    "Role",
    "Transaction",
    "Unavailable",
    "dump_json",
    "end",
    "lost_connection",
    "loudness",
    "migrate",
    "note_lost_connection",
    "plan",
    "quote",
]
