"""Texts that a service must approve before it sends them: `en.approved.txt` and `[whatsapp]` in `template.toml`.

    [whatsapp]
    name = "clinic_reminder"                            # the name at the service
    category = "UTILITY"                                # or MARKETING; default: UTILITY
    language = { en = "en_US", pt = "pt_BR" }           # the service's name of each language

    [[whatsapp.buttons]]
    payload = "CONFIRM"                                 # what our handler receives, the same in every language
    text = { en = "Confirm", pt = "Confirmar" }         # what the person sees

The approved text of a language has the variables of the template, with their filters: `{{ day|date }}`. Each different
expression becomes a numbered variable of the service, in the order of its first use, and the sender renders its value.
So the approved text and the values that are sent for it cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

PART = "approved"
"""The name of the part of a template, and of its files: `en.approved.txt`."""
EXPRESSION = re.compile(r"\{\{\s*(.+?)\s*\}\}", re.DOTALL)
NAME = re.compile(r"[a-z0-9_]{1,512}")
CATEGORIES = ("UTILITY", "MARKETING")
MAX_BODY_CHARACTERS = 1024
MAX_BUTTONS = 10
MAX_BUTTON_CHARACTERS = 25
MAX_PAYLOAD_CHARACTERS = 128


@dataclass(frozen=True, slots=True)
class QuickReply:
    """A button of an approved text: what our handler receives, and what the person sees in each language."""

    payload: str
    text: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Approval:
    """What `[whatsapp]` of a `template.toml` says."""

    name: str
    category: str
    language: Mapping[str, str]
    buttons: tuple[QuickReply, ...] = ()


def expressions(source: str) -> list[str]:
    """Return the different expressions of an approved text, in the order of their first use."""
    return list(dict.fromkeys(EXPRESSION.findall(source)))


def numbered(source: str) -> str:
    """Return the text as the service stores it: each expression becomes `{{1}}`, `{{2}}` and so on."""
    known = expressions(source)
    return EXPRESSION.sub(lambda match: "{{" + str(known.index(match[1]) + 1) + "}}", source)


def read_approval(options: Mapping[str, Any]) -> Approval | None:
    """Return what the options of a template say about approval, or None if they say nothing. The options are
    checked."""
    declared = options.get("whatsapp")
    if declared is None:
        return None
    return Approval(
        declared["name"],
        declared.get("category", CATEGORIES[0]),
        declared["language"],
        tuple(QuickReply(each["payload"], each["text"]) for each in declared.get("buttons", ())),
    )


def faults(options: Mapping[str, Any], locales: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what is wrong with the approved texts of a template. The service would refuse them, or a send would
    fail."""
    declared = options.get("whatsapp")
    written = sorted(locale for locale, parts in locales.items() if PART in parts)
    if declared is None:
        return [f"{each}.{PART}.txt needs [whatsapp] with a name in template.toml" for each in written]
    if not isinstance(declared, Mapping):
        return ["[whatsapp] must be a table"]
    found = _faults_of_table(cast("Mapping[str, Any]", declared), locales)
    for locale, parts in sorted(locales.items()):
        if PART not in parts:
            found.append(f"{locale}.{PART}.txt is missing: every language needs the text that was approved")
        else:
            found += [f"{locale}.{PART}.txt: {each}" for each in _faults_of_text(parts[PART])]
    return found


def _faults_of_table(declared: Mapping[str, Any], locales: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    name, category = declared.get("name"), declared.get("category", CATEGORIES[0])
    if not isinstance(name, str) or not NAME.fullmatch(name):
        found.append(f"[whatsapp] name must have small letters, digits and underscores only, not {name!r}")
    if category not in CATEGORIES:
        found.append(f"[whatsapp] category must be {' or '.join(CATEGORIES)}, not {category!r}")
    found += _missing_languages("language", declared.get("language"), locales)
    buttons: Any = declared.get("buttons", ())
    if not isinstance(buttons, Sequence) or len(cast("Sequence[Any]", buttons)) > MAX_BUTTONS:
        return [*found, f"[[whatsapp.buttons]] must be a list of at most {MAX_BUTTONS} buttons"]
    payloads = [each.get("payload") for each in cast("Sequence[Mapping[str, Any]]", buttons)]
    if len(set(payloads)) != len(payloads):
        found.append("[[whatsapp.buttons]]: two buttons have the same payload")
    for each in cast("Sequence[Mapping[str, Any]]", buttons):
        payload, text = each.get("payload"), each.get("text")
        if not isinstance(payload, str) or not 0 < len(payload) <= MAX_PAYLOAD_CHARACTERS:
            found.append(f"[[whatsapp.buttons]] payload must have 1 to {MAX_PAYLOAD_CHARACTERS} characters")
        found += _missing_languages(f"text of the button {payload!r}", text, locales)
        if isinstance(text, Mapping):
            for label in cast("Mapping[str, str]", text).values():
                if not 0 < len(label) <= MAX_BUTTON_CHARACTERS:
                    found.append(f"the button {label!r} must have 1 to {MAX_BUTTON_CHARACTERS} characters")
    return found


def _missing_languages(what: str, given: Any, locales: Mapping[str, Any]) -> list[str]:
    if not isinstance(given, Mapping):
        return [f"[whatsapp] {what} must name each language of the template: {{ en = ... }}"]
    missing = sorted(set(locales) - set(cast("Mapping[str, str]", given)))
    return [f"[whatsapp] {what} is missing for {', '.join(missing)}"] if missing else []


def _faults_of_text(source: str) -> list[str]:
    found: list[str] = []
    text = numbered(source)
    if "{%" in source or "{#" in source:
        found.append("an approved text is fixed: it has variables, but neither `{% %}` nor comments")
    if len(text) > MAX_BODY_CHARACTERS:
        found.append(f"it has {len(text)} characters, the service takes {MAX_BODY_CHARACTERS}")
    if re.match(r"\s*\{\{", text) or re.search(r"\}\}\s*$", text):
        found.append("it must neither begin nor end with a variable")
    if re.search(r"\}\}\s*\{\{", text):
        found.append("two variables must have words between them")
    if "\n\n\n" in text:
        found.append("it has more than one empty line in a row")
    return found
