"""What people read if the database refuses what they entered."""

from __future__ import annotations

from asyncpg import (
    CheckViolationError,
    DataError,
    ExclusionViolationError,
    ForeignKeyViolationError,
    NotNullViolationError,
    PostgresError,
    RaiseError,
    UniqueViolationError,
)


def sentence(error: PostgresError, noun: str) -> str | None:
    """Return why the database refused a change, or None if the error says nothing about what was entered.

    The details of PostgreSQL are left out: they can contain the whole row.
    """
    rule = getattr(error, "constraint_name", None) or "unnamed"
    column = getattr(error, "column_name", None) or "unnamed"
    match error:
        case UniqueViolationError():
            return f"Another {noun} has the same value, and it may exist only once (rule {rule})."
        case ExclusionViolationError():
            return f"This {noun} overlaps another one (rule {rule})."
        case ForeignKeyViolationError():
            return f"The {noun} refers to something that does not exist, or something still refers to it (rule {rule})."
        case CheckViolationError():
            return f"A value is not allowed for this {noun} (rule {rule})."
        case NotNullViolationError():
            return f"This {noun} needs a value for {column.replace('_', ' ')}."
        case DataError():
            return f"A value is too long, too large or not of the right form for this {noun}."
        case RaiseError():
            return str(error)
        case _:
            return None
