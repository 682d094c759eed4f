"""What a recipient wants to get: per topic and channel, chosen on a page that a link opens without a login.

A link is a random token, of which the database keeps a hash. It expires, and `revoke_preference_links` ends it at once.
A topic is the category of templates; `transactional` messages are not a choice. `topics.toml` in a template folder has
the titles:

    [newsletter]
    en = "News about our events"
    pt = "Novidades sobre os nossos eventos"
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import time, timedelta
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.messages.preferences import opt_in, opt_out
from onceward.messages.recipient import ChannelName
from onceward.messages.templates import Templates, fallbacks
from onceward.statements import read_statement

VALID_FOR = timedelta(days=30)
SOURCE = "preference page"
CHOOSABLE: tuple[ChannelName, ...] = ("email", "sms", "whatsapp", "push")

CREATE = """
insert into onceward.preference_links (token_hash, organization_id, recipient, expires_at)
values ($1, $2, $3, onceward.now() + $4::interval)
"""
REVOKE = """
update onceward.preference_links set revoked_at = onceward.now()
 where organization_id is not distinct from $1 and recipient = $2 and revoked_at is null
"""
OPEN = read_statement("messages", "open_preference_link")
OPT_OUTS = """
select channel, category from onceward.opt_outs where organization_id is not distinct from $1
   and recipient = any($2::text[])
"""
PRUNE = "delete from onceward.preference_links where expires_at < onceward.now() - $1::interval"

DIGESTS = """
select category, period from onceward.digest_choices where organization_id is not distinct from $1 and recipient = $2
"""
NO_DIGEST = """
delete from onceward.digest_choices where organization_id is not distinct from $1 and recipient = $2 and category = $3
"""
SAVE_DIGEST = read_statement("messages", "save_digest_choice")
SAVE_QUIET = read_statement("messages", "save_quiet_hours")

Cell = tuple[str, str]
"""A topic and a channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedLink:
    """The recipient that a valid link names, and the channels that reach the recipient."""

    organization: UUID | None
    recipient: str
    locale: str | None
    channels: tuple[str, ...]
    quiet: tuple[time, time] | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True)
class Topic:
    """A category of templates with its title in the language of the page, and the channels that its templates use."""

    name: str
    title: str
    channels: frozenset[str]
    is_digestible: bool = False
    """Whether its mails can be gathered into a digest."""


async def preference_link(tx: Transaction, recipient: str, *, public_url: str, valid_for: timedelta = VALID_FOR) -> str:
    """Return the address of the preference page of a ref or address. The link is valid when the transaction commits."""
    token = secrets.token_urlsafe(24)
    await tx.execute(CREATE, _hash(token), tx.organization, _normalized(recipient), valid_for)
    return f"{public_url.rstrip('/')}/preferences/{token}"


async def revoke_preference_links(tx: Transaction, recipient: str) -> None:
    """End all links of a recipient."""
    await tx.execute(REVOKE, tx.organization, _normalized(recipient))


async def open_link(db: Database, token: str) -> OpenedLink | None:
    """Return the recipient of a link, or None if it is unknown, expired or revoked."""
    if not 20 <= len(token) <= 64:
        return None
    row = await db.fetchrow(OPEN, _hash(token))
    if row is None:
        return None
    known = tuple(name for name in CHOOSABLE if row[name])
    has_quiet = row["quiet_from"] is not None and row["quiet_to"] is not None
    return OpenedLink(
        organization=row["organization_id"],
        recipient=row["recipient"],
        locale=row["locale"],
        channels=known,
        quiet=(row["quiet_from"], row["quiet_to"]) if has_quiet else None,
        timezone=row["timezone"],
    )


def topics_of(templates: Templates, locale: str, default_locale: str) -> list[Topic]:
    """Return the topics that one can choose, with their titles in a language."""
    channels: dict[str, set[str]] = {}
    digestible = {template.category for template in templates if template.digest}
    for template in templates:
        if template.category not in ("transactional", "digest"):
            channels.setdefault(template.category, set()).add(template.channel)
    return [
        Topic(name, title_of(templates, name, locale, default_locale), frozenset(channels[name]), name in digestible)
        for name in sorted(channels)
    ]


def title_of(templates: Templates, name: str, locale: str, default_locale: str) -> str:
    """Return the title of a topic in a language."""
    titles = templates.topics.get(name, {})
    for each in fallbacks(locale, default_locale):
        if each in titles:
            return titles[each]
    return name.replace("_", " ").replace("-", " ").capitalize()


def cells_of(topics: Collection[Topic], link: OpenedLink) -> list[Cell]:
    """Return what can be chosen: each topic on each channel that reaches the recipient. A topic without one shows
    all."""
    return [(topic.name, channel) for topic in topics for channel in link.channels]


async def chosen(db: Database | Transaction, link: OpenedLink, cells: Collection[Cell]) -> set[Cell]:
    """Return the cells that are not opted out."""
    refused = [
        (row["channel"], row["category"]) for row in await db.fetch(OPT_OUTS, link.organization, [link.recipient])
    ]
    return {cell for cell in cells if not any(_covers(each, cell) for each in refused)}


async def save_choice(db: Database, link: OpenedLink, cells: Collection[Cell], wanted: Collection[Cell]) -> None:
    """Store what the recipient wants. An opt-out of everything stays until one of its cells is wanted again."""
    async with db.transaction(role="engine", organization=link.organization) as tx:
        rows = await tx.fetch(OPT_OUTS, link.organization, [link.recipient])
        kept: list[tuple[str, str]] = []
        for row in rows:
            refused = (row["channel"], row["category"])
            if any(_covers(refused, cell) for cell in wanted):
                await opt_in(tx, link.recipient, channel=refused[0], category=refused[1], source=SOURCE)
            else:
                kept.append(refused)
        for category, channel in cells:
            if (category, channel) not in wanted and not any(_covers(each, (category, channel)) for each in kept):
                await opt_out(tx, link.recipient, channel=channel, category=category, source=SOURCE)


async def digests_of(db: Database, link: OpenedLink) -> dict[str, str]:
    """Return the topics of which the recipient gets a digest, with its period."""
    rows = await db.fetch(DIGESTS, link.organization, link.recipient)
    return {row["category"]: row["period"] for row in rows}


async def save_habits(
    db: Database, link: OpenedLink, digests: Mapping[str, str | None], quiet: tuple[time, time] | None
) -> None:
    """Store the digest of each topic (None: single mails) and the quiet hours (None: none of one's own)."""
    async with db.transaction(role="engine", organization=link.organization) as tx:
        for category, period in digests.items():
            if period is None:
                await tx.execute(NO_DIGEST, link.organization, link.recipient, category)
            else:
                await tx.execute(SAVE_DIGEST, link.organization, link.recipient, category, period)
        if quiet != link.quiet:
            await tx.execute(SAVE_QUIET, link.organization, link.recipient, *(quiet or (None, None)))


def _covers(refused: tuple[str, str], cell: Cell) -> bool:
    return refused[0] in ("*", cell[1]) and refused[1] in ("*", cell[0])


async def prune_links(db: Database, keep: timedelta) -> None:
    """Delete links that expired long ago."""
    await db.execute(PRUNE, keep)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _normalized(recipient: str) -> str:
    return recipient.lower() if "@" in recipient else recipient


WORDS: dict[str, dict[str, Any]] = {
    "en": {
        "title": "Your messages",
        "skip": "Skip to the content",
        "intro": "Choose what you would like to receive, and how.",
        "note": "Messages about your own orders and appointments are always sent.",
        "save": "Save",
        "saved": "Saved.",
        "none": "There is nothing to choose: you only get messages about your own orders and appointments.",
        "gone": "This link is no longer valid. Use the link in a newer message.",
        "email": "Email",
        "sms": "Text message",
        "whatsapp": "WhatsApp",
        "digest": "How often by mail",
        "single": "At once",
        "daily": "Every morning",
        "weekly": "Monday morning",
        "quiet": "Quiet hours",
        "quiet_from": "No messages between",
        "quiet_to": "and",
        "quiet_note": "Empty: no quiet hours of your own. Time zone: {zone}.",
        "push": "Push",
    },
    "pt": {
        "title": "As suas mensagens",
        "skip": "Ir para o conteúdo",
        "intro": "Escolha o que deseja receber e como.",
        "note": "Mensagens sobre os seus próprios pedidos e consultas são sempre enviadas.",
        "save": "Salvar",
        "saved": "Salvo.",
        "none": "Não há nada para escolher: você só recebe mensagens sobre os seus próprios pedidos e consultas.",
        "gone": "Este link não é mais válido. Use o link de uma mensagem mais recente.",
        "email": "E-mail",
        "sms": "SMS",
        "whatsapp": "WhatsApp",
        "digest": "Com que frequência por e-mail",
        "single": "Na hora",
        "daily": "Toda manhã",
        "weekly": "Segunda-feira de manhã",
        "quiet": "Horário de silêncio",
        "quiet_from": "Sem mensagens entre",
        "quiet_to": "e",
        "quiet_note": "Vazio: sem horário próprio. Fuso horário: {zone}.",
        "push": "Push",
    },
    "de": {
        "title": "Ihre Nachrichten",
        "skip": "Zum Inhalt",
        "intro": "Wählen Sie, was Sie erhalten möchten, und auf welchem Weg.",
        "note": "Nachrichten zu Ihren eigenen Bestellungen und Terminen werden immer gesendet.",
        "save": "Speichern",
        "saved": "Gespeichert.",
        "none": "Es gibt nichts zu wählen: Sie erhalten nur Nachrichten zu Ihren eigenen Bestellungen und Terminen.",
        "gone": "Dieser Link ist nicht mehr gültig. Nutzen Sie den Link in einer neueren Nachricht.",
        "email": "E-Mail",
        "sms": "SMS",
        "whatsapp": "WhatsApp",
        "digest": "Wie oft per E-Mail",
        "single": "Sofort",
        "daily": "Jeden Morgen",
        "weekly": "Montagmorgen",
        "quiet": "Ruhezeit",
        "quiet_from": "Keine Nachrichten zwischen",
        "quiet_to": "und",
        "quiet_note": "Leer: keine eigene Ruhezeit. Zeitzone: {zone}.",
        "push": "Push",
    },
    "ru": {
        "title": "Ваши сообщения",
        "skip": "К содержанию",
        "intro": "Выберите, что и как вы хотите получать.",
        "note": "Сообщения о ваших заказах и приёмах отправляются всегда.",
        "save": "Сохранить",
        "saved": "Сохранено.",
        "none": "Выбирать нечего: вы получаете только сообщения о ваших заказах и приёмах.",
        "gone": "Эта ссылка больше не действует. Откройте ссылку из более нового сообщения.",
        "email": "Почта",
        "sms": "SMS",
        "whatsapp": "WhatsApp",
        "digest": "Как часто по почте",
        "single": "Сразу",
        "daily": "Каждое утро",
        "weekly": "Утром в понедельник",
        "quiet": "Тихие часы",
        "quiet_from": "Не присылать сообщения между",
        "quiet_to": "и",
        "quiet_note": "Пусто: без своих тихих часов. Часовой пояс: {zone}.",
        "push": "Push",
    },
}
"""The texts of the page by language; other languages get English."""
