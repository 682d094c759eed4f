"""Erase what messages store about a person: addresses, texts, preferences. Keys stay, so that nothing is sent twice."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.statements import read_statement
from onceward.trust.erase import Eraser, Found, Person

KEEP_OPT_OUTS_OF_RECIPIENTS = read_statement("messages", "keep_opt_outs_of_recipients")
KEEP_OPT_OUTS = read_statement("messages", "keep_opt_outs")
CANCEL = read_statement("messages", "cancel_erased")


async def cancel_waiting(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """Cancel the messages that have not been sent, and release the notifications and bundles that wait for them."""
    await tx.execute(CANCEL, [each.key for each in found])


async def forget_recipients(
    tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None
) -> None:
    """Delete the recipients. Their opt-outs stay, under hashes that `begin_sends.sql` compares."""
    rows = [each.row for each in found]
    await tx.execute(KEEP_OPT_OUTS_OF_RECIPIENTS, rows)
    await tx.execute("delete from onceward.recipients t where t.ctid = any($1::text[]::tid[])", rows)


async def hash_opt_outs(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    """Replace each name by its hash. An earlier erasure may have written the same hash already."""
    rows = [each.row for each in found]
    await tx.execute(KEEP_OPT_OUTS, rows)
    await tx.execute("delete from onceward.opt_outs t where t.ctid = any($1::text[]::tid[])", rows)


WAITING = "t.status in ('pending', 'processing')"

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="messages",
        table="onceward.messages",
        columns={"recipient": "whole", "address": "whole"},
        blank={
            "recipient": "m.mark",
            "address": "null",
            "data": "null",
            "attachments": "null",
            "reason": f"case when {WAITING} then 'erased' end",
            "status": f"case when {WAITING} then 'cancelled' else t.status end",
        },
        together=True,
        then=cancel_waiting,
        key="t.id",
        linked="t.recipient = any($4)",
    ),
    # Messages to other people that mention the person: they keep their recipient and are blanked only after they were
    # sent.
    Eraser(
        name="mentions in messages",
        table="onceward.messages",
        columns={"data": "json", "reason": "text", "attachments": "json"},
        blank={"data": "null", "reason": "null", "attachments": "null"},
        waits=WAITING,
    ),
    Eraser(
        name="callers of messages",
        table="onceward.messages",
        columns={"context": "json"},
        blank={"context": "null"},
    ),
    Eraser(
        name="message keys",
        table="onceward.messages",
        columns={"key": "text"},
        kept="Without its key the same message could be sent a second time.",
    ),
    Eraser(
        name="notification keys",
        table="onceward.notifications",
        columns={"key": "text"},
        kept="Without its key the same notification could be sent a second time.",
    ),
    # This eraser runs before that of the opt-outs, because it reads the opt-outs under the recipient's ref.
    Eraser(
        name="recipients",
        table="onceward.recipients",
        columns={
            "ref": "whole",
            "email": "whole",
            "phone": "whole",
            "whatsapp": "whole",
            "whatsapp_group": "whole",
            "slack": "whole",
            "push": "json",
        },
        erase=forget_recipients,
        names=("ref", "email", "phone", "whatsapp", "slack"),
        # The expression is that of the index `recipients_names`.
        linked="array_remove(array[lower(t.ref), lower(t.email), lower(t.phone), lower(t.whatsapp), lower(t.slack)],"
        " null) && $2",
    ),
    Eraser(
        name="opt-outs",
        table="onceward.opt_outs",
        columns={"recipient": "whole"},
        erase=hash_opt_outs,
        linked="coalesce(t.organization_id, '00000000-0000-0000-0000-000000000000') = coalesce($1::uuid, "
        "'00000000-0000-0000-0000-000000000000') and t.recipient = any($4)",
    ),
    Eraser(
        name="preference links",
        table="onceward.preference_links",
        columns={"recipient": "whole"},
        delete=True,
        linked="t.recipient = any($4)",
    ),
    Eraser(
        name="digest choices",
        table="onceward.digest_choices",
        columns={"recipient": "whole"},
        delete=True,
        linked="t.recipient = any($4)",
    ),
    Eraser(
        name="opt-ins and opt-outs",
        table="onceward.consents",
        columns={"recipient": "whole", "wording": "text"},
        blank={"recipient": "m.mark", "wording": "null"},
        together=True,
        linked="t.recipient = any($4)",
    ),
    Eraser(
        name="suppressed addresses",
        table="onceward.suppressions",
        columns={"address": "whole"},
        blank={"address": "null"},  # the hash stays: the person is not written to again
        linked="t.address = any($4)",
    ),
    Eraser(
        name="dashboard messages",
        table="onceward.dashboard_messages",
        columns={"recipient": "whole", "title": "text", "body": "text"},
        delete=True,
        linked="t.recipient = any($4)",
    ),
    Eraser(
        name="notices",
        table="onceward.notices",
        columns={"title": "text", "details": "json", "group_key": "text"},
        blank={"title": "'erased'", "details": """'{"erased": true}'""", "group_key": "m.mark"},
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.senders.*": "phone numbers of organizations",
    "onceward.mail_domains.*": "senders of organizations",
    "onceward.suppressions.address_hash": "the hash of an address, so that no mail is sent to it",
    "onceward.preference_links.token_hash": "the hash of a random token",
    "onceward.digest_choices.category": "a name given by code",
    "onceward.suppressions.status": "a code of mail servers",
    "onceward.suppressions.source": "a name given by code",
    "onceward.service_states.*": "accounts of organizations",
    "onceward.templates.*": "texts of the app, the same for everybody",
    "onceward.current_templates.*": "names and versions of templates",
    "onceward.recipients.locale": "a language, deleted with the recipient",
    "onceward.recipients.timezone": "a time zone, deleted with the recipient",
    "onceward.recipients.preferred_channel": "a closed set, deleted with the recipient",
    "onceward.opt_outs.channel": "a name given by code",
    "onceward.opt_outs.category": "a name given by code",
    "onceward.opt_outs.source": "a name given by code",
    "onceward.consents.channel": "a name given by code",
    "onceward.consents.category": "a name given by code",
    "onceward.consents.source": "a name given by code",
    "onceward.consents.actor": "who recorded it: an operator or a part of the app",
    "onceward.notifications.type": "a name given by code",
    "onceward.notifications.channels": "names given by code",
    "onceward.messages.channel": "a name given by code",
    "onceward.messages.template": "a name given by code",
    "onceward.messages.version": "a hash of the template",
    "onceward.messages.category": "a name given by code",
    "onceward.messages.locale": "a language",
    "onceward.messages.timezone": "a time zone",
    "onceward.messages.policy": "a name given by code",
    "onceward.messages.reference": "the service's id of the message",
    "onceward.messages.delivery": "a closed set",
    "onceward.dashboard_messages.type": "a name given by code",
    "onceward.dashboard_messages.severity": "a closed set",
    "onceward.notices.type": "a name given by code",
    "onceward.notices.channels": "names given by code",
    "onceward.account_troubles.*": "channels, names of templates, and error codes of services",
    "onceward.send_slots.*": "recipients are hashes here",
}
