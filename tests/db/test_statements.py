"""A script is split where PostgreSQL would split it."""

from __future__ import annotations

import pytest

from onceward.db.statements import split


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("select 1; select 2;", ["select 1", "select 2"]),
        ("select ';'; select \"a;b\"", ["select ';'", 'select "a;b"']),
        ("select 'it''s; ok'; select 2", ["select 'it''s; ok'", "select 2"]),
        (r"select E'\';'; select 2", [r"select E'\';'", "select 2"]),
        ("do $$ begin; end $$; select 2", ["do $$ begin; end $$", "select 2"]),
        ("do $a$ x; $$ ; $$ $a$; select 2", ["do $a$ x; $$ ; $$ $a$", "select 2"]),
        ("select 1 -- no; end\n; select 2", ["select 1 -- no; end", "select 2"]),
        ("/* a; /* b; */ c; */ select 1; ", ["/* a; /* b; */ c; */ select 1"]),
        ("-- nothing;\n;;\n/* ; */", []),
        ("select a$b$ from t; select 2", ["select a$b$ from t", "select 2"]),
        ("select $1; select 'open", ["select $1", "select 'open"]),
    ],
)
def test_semicolons_inside_quotes_and_comments_do_not_end_a_statement(script: str, statements: list[str]) -> None:
    assert split(script) == statements
