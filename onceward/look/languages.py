"""The languages of pages. A page is written in English; its texts are looked up in a file for each further language.

A file `pt.toml` maps English texts to Portuguese ones. `{}` stands for anything, and `{n}` for a number:
`"{} ago" = "há {}"`, `"{n} of {n}" = "{n} de {n}"`. What people have entered is never looked up: it stands in elements
with the attribute `translate="no"`, or matches no text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import escape, unescape
from pathlib import Path

FOLDER = Path(__file__).parent / "languages"
# The last `<` begins no tag: it is that of a comparison in a script.
TOKEN = re.compile(
    r"<!--.*?-->|<![^>]*>|<(?P<close>/?)(?P<tag>[a-zA-Z][\w-]*)(?P<attributes>[^>]*)>|<|[^<]+", re.DOTALL
)
ATTRIBUTE = re.compile(r'\b(title|aria-label|placeholder|alt|data-label|data-word-[a-z]+)="([^"]*)"')
PLACE = re.compile(r"\{n?\}")
NUMBER = r"((?:about )?[\d.,]+(?: [kMG])?)"
UNTOUCHED = frozenset({"script", "style", "pre", "code", "textarea", "kbd", "svg"})
LANGUAGES = {
    "en": "English",
    "pt": "Português",
    "de": "Deutsch",
    "es": "Español",
    "fr": "Français",
    "ru": "Русский",
    "af": "Afrikaans",
}
"""What people who speak them call the languages. A file may also be for a language that is not listed here."""


class Catalogue:
    """The texts of one language."""

    def __init__(self, language: str, texts: Mapping[str, str]) -> None:
        self.language = language
        self.texts = texts
        self._texts = {key: value for key, value in texts.items() if not PLACE.search(key)}
        patterns = sorted((key for key in texts if PLACE.search(key)), key=lambda key: -len(key))
        self._patterns = [(re.compile(_pattern(key), re.DOTALL), texts[key].replace("{n}", "{}")) for key in patterns]
        self.text = lru_cache(maxsize=20_000)(self._text)

    def _text(self, words: str) -> str | None:
        """Return a text in this language, or None if the file has none. Spaces around it do not matter."""
        plain = " ".join(words.split())
        found = self._texts.get(plain)
        if found is None:
            for pattern, translated in self._patterns:
                if (match := pattern.fullmatch(plain)) is not None:
                    return translated.format(*(self.text(each) or each for each in match.groups()))
        return found

    def page(self, html: str) -> str:
        """Return a page in this language."""
        return "".join(self._tokens(html))

    def _tokens(self, html: str) -> Iterable[str]:
        left, depth = "", 0
        for match in TOKEN.finditer(html):
            token, tag = match[0], (match["tag"] or "").lower()
            if left:
                if tag == left:
                    depth += -1 if match["close"] else 1
                    left = left if depth else ""
                yield token
            elif tag and not match["close"]:
                if tag in UNTOUCHED or 'translate="no"' in match["attributes"]:
                    left, depth = tag, 1
                yield self._tag(token, tag)
            else:
                yield token if tag or token.startswith("<") else self._words(token)

    def _tag(self, token: str, tag: str) -> str:
        if tag == "html":
            token = token.replace('lang="en"', f'lang="{self.language}"')
        return ATTRIBUTE.sub(lambda match: f'{match[1]}="{self._attribute(match[2])}"', token)

    def _attribute(self, given: str) -> str:
        found = self.text(unescape(given))
        return given if found is None else escape(found)

    def _words(self, token: str) -> str:
        words = token.strip()
        if not words or (found := self.text(unescape(words))) is None:
            return token
        return token.replace(words, escape(found, quote=False))


def _pattern(key: str) -> str:
    parts = re.split(r"(\{n?\})", key)
    return "".join({"{}": "(.+?)", "{n}": NUMBER}.get(part, re.escape(part)) for part in parts)


class Languages:
    """The languages of one process: English, and each one that has a file.

    `shared` includes the texts of the dashboard, which public pages of an app do not need.
    """

    def __init__(self, folders: Iterable[Path], *, shared: bool = True) -> None:
        texts: dict[str, dict[str, str]] = {}
        for folder in (*((FOLDER,) if shared else ()), *folders):
            for path in sorted(folder.glob("*.toml")):
                with path.open("rb") as file:
                    texts.setdefault(path.stem, {}).update(tomllib.load(file))
        self.catalogues = {language: Catalogue(language, each) for language, each in texts.items()}

    @property
    def names(self) -> dict[str, str]:
        """Return the languages with the names by which people choose them."""
        return {each: LANGUAGES.get(each, each) for each in ("en", *self.catalogues)}

    def texts(self, language: str) -> Mapping[str, str]:
        """Return the texts of a language, for a script that shows some of them. English needs none."""
        catalogue = self.catalogues.get(language)
        return {} if catalogue is None else catalogue.texts

    def chosen(self, cookie: str, accepted: str) -> str:
        """Return the language of a viewer: the one that they chose, or the first that their browser asks for."""
        if cookie in self.names:
            return cookie
        for each in accepted.split(","):
            language = each.partition(";")[0].strip().lower().partition("-")[0]
            if language in self.names:
                return language
        return "en"

    def page(self, html: str, language: str) -> str:
        """Return a page in a language. English pages are returned as they are."""
        catalogue = self.catalogues.get(language)
        return html if catalogue is None else catalogue.page(html)
