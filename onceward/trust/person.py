"""Decide whether a stored value is about one person. These functions do not use the database.

A reference is an email address, a phone number, a UUID or an id of the application. It is compared with whole values
and with whole words of a text, never with parts of words: `ann@example.org` is not in `joann@example.org`. An ambiguous
reference (`10001`, `ann`) is compared only with columns and JSON members that name a person.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote, unquote
from uuid import UUID

from onceward.trust.errors import TrustError

LONGEST_REFERENCE = 320
SHORTEST_DISTINCTIVE = 8
MARK = "erased:"
"""Prefix of the value that replaces a reference. The hash of the reference follows."""

MEMBERS = """
actor attendee attendeeid buyer buyerid changedby clientreferenceid contact contactid createdby customer customerid
email from guest guestid holder holderid member memberid owner ownerid patient patientid person personid phone recipient
recipientid ref requestedby student studentid sub subject to user userid username waid whatsapp
"""
PERSON_MEMBERS = frozenset(MEMBERS.split())
"""JSON members that name a person, in lower case and without punctuation: `user_id` and `userId` are `userid`."""

EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
PHONE = re.compile(r"\+[0-9]{8,15}")
# The boundaries of a whole word. A dot ends a sentence, but does not end the word in `example.org.uk`.
BEFORE = r"(?<![\w.+%@-])(?<!\w')"
AFTER = r"(?![\w@+-]|\.\w|'\w)"


class BadReference(TrustError):
    """The text cannot be a reference to a person."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One name of a person. If it is `distinctive`, nothing else looks like it, and texts are searched for it."""

    text: str
    distinctive: bool
    forms: tuple[str, ...]
    """The spellings of the reference as a whole value, in lower case."""

    @classmethod
    def parse(cls, given: str) -> Reference:
        text = given.strip()
        if not text or len(text) > LONGEST_REFERENCE or "\0" in text:
            raise BadReference(
                f"person {given[:50]!r} must have 1 to {LONGEST_REFERENCE} characters: give an address, a phone number"
                " or an id"
            )
        folded = text.lower()
        if PHONE.fullmatch(text):
            return cls(text, True, (folded, folded[1:]))
        mixed = any(sign.isalpha() for sign in text) and any(sign.isdigit() for sign in text)
        distinctive = (
            EMAIL.fullmatch(text) is not None or _is_uuid(text) or (mixed and len(text) >= SHORTEST_DISTINCTIVE)
        )
        return cls(text, distinctive, (folded,))

    @property
    def hash(self) -> str:
        """Return the hash of the reference, the same as `onceward.person_hash` in SQL."""
        return hashlib.sha256(self.text.lower().encode()).hexdigest()

    @property
    def needles(self) -> tuple[str, ...]:
        """Return the texts, in lower case, one of which a candidate value must contain."""
        escaped = (json.dumps(form, ensure_ascii=False)[1:-1] for form in self.forms)
        ascii_only = (json.dumps(form)[1:-1] for form in self.forms)
        encoded = (quote(form, safe="").lower() for form in self.forms)
        return tuple(dict.fromkeys([*self.forms, *escaped, *ascii_only, *encoded]))

    @property
    def word(self) -> re.Pattern[str]:
        return re.compile(BEFORE + re.escape(self.text) + AFTER, re.IGNORECASE)


class Person:
    """All references to one person, with methods that decide whether a value names or mentions the person."""

    def __init__(self, references: str | Iterable[str]) -> None:
        given = [references] if isinstance(references, str) else list(references)
        self.references: tuple[Reference, ...] = tuple(dict.fromkeys(Reference.parse(each) for each in given))
        if not self.references:
            raise BadReference("person: give at least one address, phone number or id")
        self._forms = frozenset(form for each in self.references for form in each.forms)
        self._words = [each.word for each in self.references if each.distinctive]

    @property
    def mark(self) -> str:
        """Return the text that replaces the person's name. It is always the same and does not contain the name."""
        return MARK + self.hash

    @property
    def hash(self) -> str:
        return self.references[0].hash

    @property
    def forms(self) -> list[str]:
        return sorted(self._forms)

    @property
    def spellings(self) -> list[str]:
        """Return the references as they were given, and in lower case."""
        return sorted(self._forms | {each.text for each in self.references})

    @property
    def uuids(self) -> list[UUID]:
        return [UUID(form) for form in self.forms if _is_uuid(form)]

    @property
    def needles(self) -> list[str]:
        return sorted({needle for each in self.references for needle in each.needles})

    def is_named(self, value: object) -> bool:
        """Return whether the whole value is a reference."""
        return value is not None and str(value).strip().lower() in self._forms

    def is_mentioned(self, text: str | None) -> bool:
        """Return whether a text contains a distinctive reference as a whole word."""
        if not text:
            return False
        if self._is_whole(text) or any(word.search(text) for word in self._words):
            return True
        plain = unquote(text) if "%" in text else text
        return plain != text and any(word.search(plain) for word in self._words)

    def is_in_list(self, values: Sequence[object] | None) -> bool:
        return any(self.is_mentioned(str(value)) for value in values or ())

    def is_in_json(self, value: Any, member: str = "") -> bool:
        """Return whether a decoded JSON value contains the person anywhere, including names of members."""
        match value:
            case dict():
                members = cast(dict[str, Any], value)
                return any(self.is_mentioned(name) or self.is_in_json(each, name) for name, each in members.items())
            case list():
                return any(self.is_in_json(each, member) for each in cast(list[Any], value))
            case str():
                return self.is_mentioned(value) or (_names_person(member) and self.is_named(value))
            case bool() | None:
                return False
            case _:
                return _names_person(member) and self.is_named(value)

    def is_in_body(self, body: bytes | None) -> bool:
        """Return whether a body contains the person. The body is read as JSON if possible, else as text."""
        if not body:
            return False
        text = body.decode("utf-8", "replace")
        try:
            return self.is_in_json(json.loads(text))
        except ValueError:
            return self.is_mentioned(text)

    def _is_whole(self, text: str) -> bool:
        """Return whether the whole text is a distinctive reference, in any spelling."""
        folded = text.strip().lower()
        return any(each.distinctive and folded in each.forms for each in self.references)


def _names_person(member: str) -> bool:
    return "".join(sign for sign in member.lower() if sign.isalnum()) in PERSON_MEMBERS


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
