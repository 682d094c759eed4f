"""What people answer: STOP, START, HELP and the answers of apps, by exact words in each language, and by the ids of
buttons.

Case, accents, punctuation and a polite word at the ends do not count. A word inside a sentence is not an answer.
`yes` and `no` mean something only as the answer to a question: an app must know which question it asked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from functools import cache
from typing import Literal, get_args

Reply = Literal["stop", "start", "help", "confirm", "cancel", "yes", "no", "later"]
"""What a short answer to a message means (`read_reply`)."""
REPLIES: tuple[Reply, ...] = get_args(Reply)
PUNCTUATION = " \t\r\n.!?,;:'\"¡¿"
VARIANTS = frozenset("\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
"""Characters that choose the colour of an emoji."""

WORDS: Mapping[str, Mapping[Reply, tuple[str, ...]]] = {
    "en": {
        "stop": ("stop", "stopall", "stop all", "unsubscribe", "end", "quit", "optout", "opt out", "revoke"),
        "start": ("start", "unstop", "subscribe", "opt in"),
        "help": ("help", "info"),
        "confirm": ("confirm", "confirmed", "i confirm", "confirm appointment"),
        "cancel": ("cancel", "cancel it", "cancel appointment", "cancel my appointment"),
        "yes": ("yes", "y", "yep", "ok", "okay", "sure", "👍"),
        "no": ("no", "n", "nope", "👎"),
        "later": ("later",),
    },
    "pt": {
        "stop": ("parar", "pare", "sair", "descadastrar", "cancelar inscricao"),
        "start": ("iniciar", "comecar", "voltar", "inscrever"),
        "help": ("ajuda", "preciso de ajuda"),
        "confirm": ("confirmar", "confirmo", "confirmado", "confirmar consulta"),
        "cancel": ("cancelar", "cancelo", "cancelar consulta", "cancelar a consulta"),
        "yes": ("sim", "s", "claro"),
        "no": ("nao",),
        "later": ("depois", "mais tarde"),
    },
    "es": {
        "stop": ("baja", "alto", "detener"),
        "start": ("alta", "empezar", "reanudar"),
        "help": ("ayuda", "necesito ayuda"),
        "confirm": ("confirmar cita",),
        "cancel": ("cancelar cita", "cancelar la cita"),
        "yes": ("si",),
        "later": ("luego", "mas tarde"),
    },
    "de": {
        "stop": ("stopp", "abmelden", "abbestellen", "keine nachrichten"),
        "start": ("starten", "anmelden", "weiter"),
        "help": ("hilfe", "ich brauche hilfe"),
        "confirm": ("bestätigen", "bestaetigen", "bestätige", "ich bestätige", "termin bestätigen"),
        "cancel": ("absagen", "stornieren", "termin absagen", "ich sage ab"),
        "yes": ("ja", "j"),
        "no": ("nein", "nee"),
        "later": ("später", "spaeter"),
    },
    "ru": {
        "stop": ("стоп", "отписаться", "отписка", "хватит"),
        "start": ("старт", "начать", "подписаться"),
        "help": ("помощь", "справка", "нужна помощь"),
        "confirm": ("подтверждаю", "подтвердить"),
        "cancel": ("отмена", "отменить"),
        "yes": ("да",),
        "no": ("нет",),
        "later": ("позже", "потом"),
    },
}
"""The words of each language, in lower case. A word may stand for one reply only.

The languages of the templates are all here.
"""

POLITE = (
    "please", "thanks", "thank you", "por favor", "obrigado", "obrigada", "gracias", "bitte", "danke", "vielen dank",
    "пожалуйста", "спасибо",
)  # fmt: skip
"""Words around an answer that do not change it. "No thanks" is a no."""


def read_reply(*texts: str, allowed: Collection[Reply] = REPLIES) -> Reply | None:
    """Return what a person asks for: the first text that is one of the words of an `allowed` reply.

    Ids of buttons come first.
    """
    for text in texts:
        reply = _by_word().get(_plain(text))
        if reply is not None and reply in allowed:
            return reply
    return None


def language_of(text: str, reply: Reply) -> str | None:
    """Return the language of a word that stands for this reply. None: it is English, which everybody writes, or no such
    word."""
    plain = _plain(text)
    return next(
        (
            language
            for language, words in WORDS.items()
            if language != "en" and plain in map(_plain, words.get(reply, ()))
        ),
        None,
    )


@cache
def _by_word() -> Mapping[str, Reply]:
    return {word: reply for words in WORDS.values() for reply, each in words.items() for word in map(_plain, each)}


def _plain(text: str) -> str:
    words = _bare(text)
    for _ in range(2):
        for polite in _polite():
            if words.endswith(f" {polite}"):
                words = words.removesuffix(polite).rstrip(PUNCTUATION)
            elif words.startswith((f"{polite} ", f"{polite}, ")):
                words = words.removeprefix(polite).lstrip(PUNCTUATION)
    return words


@cache
def _polite() -> tuple[str, ...]:
    return tuple(map(_bare, POLITE))


def _bare(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text[:100]).casefold()
    kept = "".join(char for char in decomposed if not unicodedata.combining(char) and char not in VARIANTS)
    return " ".join(kept.strip(PUNCTUATION).split())
