"""The frequent statements, one `.sql` file each. Rare statements stand in the module that uses them."""

from __future__ import annotations

from onceward.db.sql_files import load_sql

START_MANY = load_sql(__file__, "start_many")
RECORD = load_sql(__file__, "record")
FINISH = load_sql(__file__, "finish")
