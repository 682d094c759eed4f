"""Check templates when a process starts: a missing translation or variable is an error then, and not when a message is
sent.

Every language of a folder needs every template of the folder. Every text is rendered with `sample.json` in each
language, for each channel that has a text of its own. A template without a sample must use the same variables in each
language.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from onceward.messages.approved import PART
from onceward.messages.recipient import CHANNELS
from onceward.messages.rendering import check, render, variables
from onceward.messages.templates import BadTemplate, Template, Templates
from onceward.work import PayloadInvalid


def check_templates(templates: Templates) -> None:
    """Raise BadTemplate with one line for each thing that is missing."""
    found = [*missing_translations(templates), *(fault for each in templates for fault in faults(each))]
    if found:
        raise BadTemplate("\n".join(found))


def missing_translations(templates: Templates) -> Iterable[str]:
    """Return the languages that some templates of a folder have and others lack."""
    for directory, own in templates.by_directory.items():
        languages = {locale for each in own for locale in each.locales}
        for template in own:
            for locale in sorted(languages - set(template.locales)):
                yield f"template {template.name!r} is missing in {locale}: create {_file(directory, template, locale)}"


def _file(directory: Path, template: Template, locale: str) -> Path:
    return directory / template.name / f"{locale}.txt"


def faults(template: Template) -> Iterable[str]:
    """Return what cannot be rendered with the sample data, by language and channel."""
    if not template.sample:
        yield from different_variables(template)
        return
    for locale, parts in template.locales.items():
        channels = {"email", template.channel, *(each for each in CHANNELS if each in parts)}
        if PART in parts:
            channels.add("whatsapp")
        for channel in sorted(channels):
            try:
                check(template)
                render(template, template.sample, locale=locale, default_locale=locale, channel=channel)
            except PayloadInvalid as error:
                yield f"{error} (channel {channel}; sample.json has the values of all variables)"
                break


def different_variables(template: Template) -> Iterable[str]:
    """Return the variables that the text of some languages has and that of others lacks."""
    used = {locale: variables(parts["subject"] + parts["text"]) for locale, parts in template.locales.items()}
    for locale, names in sorted(used.items()):
        if missing := sorted(set[str]().union(*used.values()) - names):
            yield f"template {template.name!r} ({locale}) does not use {', '.join(missing)}, as other languages do"
