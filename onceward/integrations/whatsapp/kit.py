"""The templates that an app needs at Meta, ready to submit, and how they differ from those of an account."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from onceward.messages.approved import PART, Approval, expressions, numbered, read_approval
from onceward.messages.rendering import render
from onceward.messages.templates import Template
from onceward.services.call import objects
from onceward.webhooks.payload import as_text

Verdict = Literal["ok", "missing", "different", "waiting", "unusable"]
"""`waiting`: submitted and not approved yet. `unusable`: rejected, paused or disabled, so Meta refuses to send it."""
APPROVED = "APPROVED"
WAITING = frozenset({"PENDING", "IN_APPEAL"})


@dataclass(frozen=True, slots=True)
class NeededTemplate:
    """One template in one language, as Meta's `message_templates` takes it."""

    template: str
    """The name of the template in the app."""
    submission: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        return self.submission["name"], self.submission["language"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A needed template beside the account: `detail` says what is different, or why Meta does not send it."""

    needed: NeededTemplate
    verdict: Verdict
    status: str | None = None
    detail: str = ""


def needed_templates(templates: Iterable[Template]) -> list[NeededTemplate]:
    """Return what the templates of an app need at Meta: one entry per approved name and language."""
    found: dict[tuple[str, str], NeededTemplate] = {}
    for template in templates:
        approval = read_approval(template.options)
        if approval is None:
            continue
        for locale in template.locales:
            needed = NeededTemplate(template.name, _submission(template, approval, locale))
            found.setdefault(needed.key, needed)
    return [found[key] for key in sorted(found)]


def _submission(template: Template, approval: Approval, locale: str) -> dict[str, Any]:
    source = template.locales[locale][PART]
    body: dict[str, Any] = {"type": "BODY", "text": numbered(source)}
    if expressions(source):
        # Meta approves no variable without an example of its value.
        sample = render(template, template.sample, locale=locale, default_locale=locale, channel="whatsapp").parameters
        body["example"] = {"body_text": [[" ".join(each.split()) for each in sample]]}
    components = [body]
    if approval.buttons:
        buttons = [{"type": "QUICK_REPLY", "text": each.text[locale]} for each in approval.buttons]
        components.append({"type": "BUTTONS", "buttons": buttons})
    return {
        "name": approval.name,
        "language": approval.language[locale],
        "category": approval.category,
        "components": components,
    }


def compare(needed: Sequence[NeededTemplate], account: Iterable[Mapping[str, Any]]) -> list[Comparison]:
    """Compare the templates with those of an account: name, language, status, text with its variables, buttons."""
    known = {(as_text(each.get("name")), as_text(each.get("language"))): each for each in account}
    return [_compare(each, known.get(each.key)) for each in needed]


def _compare(needed: NeededTemplate, found: Mapping[str, Any] | None) -> Comparison:
    if found is None:
        return Comparison(needed, "missing", None, "the account has no template with this name and language")
    status = as_text(found.get("status")).upper() or "UNKNOWN"
    if faults := list(_differences(needed.submission, found)):
        return Comparison(needed, "different", status, "; ".join(faults))
    if status == APPROVED:
        return Comparison(needed, "ok", status)
    reason = as_text(found.get("rejected_reason"))
    detail = "" if reason in ("", "NONE") else reason
    return Comparison(needed, "waiting" if status in WAITING else "unusable", status, detail)


def _differences(needed: Mapping[str, Any], found: Mapping[str, Any]) -> Iterable[str]:
    ours, theirs = _component(needed, "BODY"), _component(found, "BODY")
    wanted, written = _plain(ours.get("text")), _plain(theirs.get("text"))
    if wanted.count("{{") != written.count("{{"):
        yield f"the body has {written.count('{{')} variables, the app sends {wanted.count('{{')}"
    elif wanted != written:
        yield "the body has another text"
    labels = [as_text(each.get("text")) for each in objects(_component(needed, "BUTTONS"), "buttons")]
    there = [
        as_text(each.get("text"))
        for each in objects(_component(found, "BUTTONS"), "buttons")
        if as_text(each.get("type")).upper() == "QUICK_REPLY"
    ]
    if labels != there:
        yield f"the quick replies are {', '.join(there) or 'none'}, the app needs {', '.join(labels) or 'none'}"
    category = as_text(found.get("category")).upper()
    if category and category != needed["category"]:
        yield f"the category is {category}, the app needs {needed['category']}"


def _component(template: Mapping[str, Any], type: str) -> dict[str, Any]:
    for each in objects(template, "components"):
        if as_text(each.get("type")).upper() == type:
            return each
    return {}


def _plain(text: Any) -> str:
    return " ".join(as_text(text).split())
