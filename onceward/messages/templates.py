"""Templates: folders with one text file per language. The database stores each version that a message uses.

    order-confirmation/
        en.txt           Subject: line, empty line, text
        en.html          optional: content for the HTML layout; default: the text
        en.sms.txt       optional: a text for one channel
        en.approved.txt  optional: the text that WhatsApp has approved (messages/approved.py)
        pt.txt
        template.toml    optional: category, policy, channel, bulk, digest, window, WhatsApp template
        sample.json      data for previews and tests

A message is rendered with the version that was current when it was queued, even if the files have changed since.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import time
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from onceward.db import RawJson
from onceward.errors import OncewardError
from onceward.messages import approved
from onceward.messages.errors import UnknownTemplate
from onceward.messages.hours import Window
from onceward.messages.recipient import CHANNELS, ChannelName

BUILT_IN = Path(__file__).parent / "builtin"
POLICIES = ("quick", "patient")


class BadTemplate(OncewardError, ValueError):
    """The error text names the file and the problem."""


@dataclass(frozen=True)
class Template:
    """One version of a template.

    `locales` maps a language to its parts: subject, text, html, texts for single channels.
    """

    name: str
    locales: Mapping[str, Mapping[str, str]]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sample: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @cached_property
    def content(self) -> RawJson:
        """The content that the database stores, as JSON. Equal content has an equal version."""
        content = {"locales": {k: dict(v) for k, v in self.locales.items()}, "options": dict(self.options)}
        return RawJson(orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode())

    @cached_property
    def version(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()[:16]

    @property
    def category(self) -> str:
        """`transactional` messages ignore opt-outs; recipients can opt out of every other category."""
        return self.options.get("category", "transactional")

    @property
    def policy(self) -> str:
        return self.options.get("policy", "quick")

    @property
    def channel(self) -> ChannelName:
        return self.options.get("channel", "email")

    @property
    def installation_account(self) -> frozenset[str]:
        """The channels on which the installation's account sends, also for an organization with its own: it may be
        refused."""
        return frozenset(self.options.get("installation_account", ()))

    @property
    def bulk(self) -> bool:
        """Whether messages of this template go after all others of their account, such as a newsletter."""
        return bool(self.options.get("bulk", False))

    @property
    def digest(self) -> bool:
        """Whether recipients may choose to get the mails of this template together, once a day or a week."""
        return bool(self.options.get("digest", False))

    @property
    def window(self) -> Window | None:
        options = self.options.get("window")
        return None if options is None else Window.parse(options)

    @property
    def respects_quiet(self) -> bool:
        """Whether quiet hours delay the message. The default is yes, except for transactional messages."""
        return bool(self.options.get("quiet_hours", self.category != "transactional"))

    def locale_for(self, requested: str | None, default: str) -> str:
        """Return the best language: pt-BR, then pt, then the default language, then the only one that exists."""
        for candidate in fallbacks(requested, default):
            if candidate in self.locales:
                return candidate
        if len(self.locales) == 1:
            return next(iter(self.locales))
        raise UnknownTemplate(
            f"template {self.name!r} exists in {', '.join(sorted(self.locales))}, but neither in {requested!r} nor in "
            f"the default language {default!r}"
        )


def fallbacks(requested: str | None, default: str) -> list[str]:
    """Return the languages to try, best first."""
    chain: list[str] = []
    for each in (requested, default):
        if each:
            parts = each.replace("_", "-").split("-")
            chain += ["-".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return list(dict.fromkeys(chain))


class Templates:
    """All templates of one process, each in its current version."""

    def __init__(self, directories: Iterable[Path] = ()) -> None:
        self._by_name: dict[str, Template] = {}
        self.by_directory: dict[Path, list[Template]] = {}
        self.topics: dict[str, dict[str, str]] = {}
        """The title of each topic by language, from `topics.toml` of the folders."""
        self.directories = (BUILT_IN, *directories)
        for directory in self.directories:
            if not directory.is_dir():
                raise BadTemplate(f"the template folder {directory} does not exist")
            folders = sorted(path for path in directory.iterdir() if path.is_dir())
            self.by_directory[directory] = [read_folder(folder) for folder in folders]
            for template in self.by_directory[directory]:
                self.add(template)
            self.topics |= _topics(directory / "topics.toml")

    def add(self, template: Template) -> None:
        """Add a template.

        It replaces an earlier one with the same name, so that apps can override the built-in templates.
        """
        self._by_name[template.name] = template

    def get(self, name: str) -> Template:
        try:
            return self._by_name[name]
        except KeyError:
            known = ", ".join(sorted(self._by_name)) or "none"
            raise UnknownTemplate(f"there is no template {name!r}; known: {known}") from None

    def __iter__(self) -> Any:
        return iter(self._by_name.values())


def from_content(name: str, content: Mapping[str, Any]) -> Template:
    """Build the template from the content that the database stores."""
    return Template(name, content["locales"], content["options"])


def read_folder(folder: Path) -> Template:
    """Read one template; raise BadTemplate with the name of the file."""
    locales: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.txt")) + sorted(folder.glob("*.html")):
        locale, _, variant = path.stem.partition(".")
        parts = locales.setdefault(locale, {})
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            parts["html"] = text
        elif variant:
            if variant not in (*CHANNELS, approved.PART):
                known = ", ".join((*CHANNELS, approved.PART))
                raise BadTemplate(f"{path}: {variant!r} is not a channel; use one of {known}")
            parts[variant] = text.strip()
        else:
            parts["subject"], parts["text"] = _split(path, text)
    if not locales:
        raise BadTemplate(f"{folder} contains no template: create {folder / 'en.txt'}")
    for locale, parts in locales.items():
        if "text" not in parts:
            raise BadTemplate(f"{folder / (locale + '.txt')} is missing: every language needs a plain-text file")
    options = _options(folder)
    if faults := approved.faults(options, locales):
        raise BadTemplate(f"{folder}: {'; '.join(faults)}")
    sample = folder / "sample.json"
    return Template(folder.name, locales, options, orjson.loads(sample.read_bytes()) if sample.exists() else {})


def _split(path: Path, text: str) -> tuple[str, str]:
    head, _, body = text.partition("\n\n")
    name, colon, subject = head.partition(":")
    if name.strip().lower() != "subject" or not colon or "\n" in subject.strip():
        raise BadTemplate(f"{path}: the first line must be `Subject: ...`, followed by an empty line")
    return subject.strip(), body.strip()


def _topics(path: Path) -> dict[str, dict[str, str]]:
    if not path.exists():
        return {}
    try:
        topics = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadTemplate(f"{path}: {error}") from None
    for name, titles in topics.items():
        if not isinstance(titles, dict) or not all(isinstance(each, str) for each in titles.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            raise BadTemplate(f'{path}: [{name}] must have a title for each language: en = "News"')
    return topics


def _options(folder: Path) -> dict[str, Any]:
    path = folder / "template.toml"
    if not path.exists():
        return {}
    try:
        options = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadTemplate(f"{path}: {error}") from None
    for name, allowed in (("policy", POLICIES), ("channel", CHANNELS)):
        if options.get(name, allowed[0]) not in allowed:
            raise BadTemplate(f"{path}: {name} must be one of {', '.join(allowed)}, not {options[name]!r}")
    for name in ("bulk", "digest", "quiet_hours"):
        if not isinstance(options.get(name, False), bool):
            raise BadTemplate(f"{path}: {name} must be true or false, not {options[name]!r}")
    if options.get("digest") and options.get("category", "transactional") == "transactional":
        raise BadTemplate(f"{path}: a template for digests needs a category, which is the topic that people choose")
    if options.get("bulk") and options.get("category", "transactional") == "transactional":
        raise BadTemplate(f"{path}: a bulk template needs a category that people can opt out of, such as newsletter")
    if "window" in options:
        try:
            Window.parse(options["window"])
        except ValueError as error:
            raise BadTemplate(f"{path}: window: {error}") from None
        options["window"] = {
            k: v.isoformat("minutes") if isinstance(v, time) else v for k, v in options["window"].items()
        }
    return options
