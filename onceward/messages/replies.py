"""What people answer: STOP, START, HELP and the answers of apps, by exact words in each language, and by the ids of buttons.

Case, accents and punctuation at the ends do not count. A word inside a sentence is not an answer.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from functools import cache
from typing import Literal, get_args

Reply = Literal["stop", "start", "help", "confirm", "cancel", "later"]
REPLIES: tuple[Reply, ...] = get_args(Reply)

WORDS: Mapping[str, Mapping[Reply, tuple[str, ...]]] = {
    "en": {
        "stop": ("stop", "stopall", "stop all", "unsubscribe", "end", "quit", "optout", "opt out", "revoke"),
        "start": ("start", "unstop", "subscribe", "opt in"),
        "help": ("help", "info"),
        "confirm": ("confirm", "confirmed", "yes", "y", "ok", "1"),
        "cancel": ("cancel", "cancel appointment", "no", "n", "2"),
        "later": ("later",),
    },
    "pt": {
        "stop": ("parar", "pare", "sair", "descadastrar", "cancelar inscricao"),
        "start": ("iniciar", "comecar", "voltar", "inscrever"),
        "help": ("ajuda", "preciso de ajuda"),
        "confirm": ("confirmar", "confirmo", "sim", "s"),
        "cancel": ("cancelar", "cancelo", "nao"),
        "later": ("depois", "mais tarde"),
    },
    "es": {
        "stop": ("baja", "alto", "detener"),
        "start": ("alta", "empezar", "reanudar"),
        "help": ("ayuda", "necesito ayuda"),
        "confirm": ("si",),
        "later": ("luego", "mas tarde"),
    },
    "de": {
        "stop": ("stopp", "abmelden", "abbestellen", "keine nachrichten"),
        "start": ("starten", "anmelden", "weiter"),
        "help": ("hilfe", "ich brauche hilfe"),
        "confirm": ("ja", "bestätigen", "bestaetigen", "bestätige"),
        "cancel": ("nein", "absagen", "stornieren"),
        "later": ("später", "spaeter"),
    },
    "ru": {
        "stop": ("стоп", "отписаться", "отписка", "хватит"),
        "start": ("старт", "начать", "подписаться"),
        "help": ("помощь", "справка", "нужна помощь"),
        "confirm": ("да", "подтверждаю", "подтвердить"),
        "cancel": ("нет", "отмена", "отменить"),
        "later": ("позже", "потом"),
    },
}
"""The words of each language, in lower case. A word may stand for one reply only.

The languages of the templates are all here.
"""


def read_reply(*texts: str, allowed: Collection[Reply] = REPLIES) -> Reply | None:
    """Return what a person asks for: the first text that is one of the words of an `allowed` reply.

    Ids of buttons come first.
    """
    for text in texts:
        reply = _by_word().get(_plain(text))
        if reply is not None and reply in allowed:
            return reply
    return None


@cache
def _by_word() -> Mapping[str, Reply]:
    return {word: reply for words in WORDS.values() for reply, each in words.items() for word in map(_plain, each)}


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text[:100]).casefold()
    kept = "".join(char for char in decomposed if not unicodedata.combining(char))
    return " ".join(kept.strip(" \t\r\n.!?,;:'\"").split())
