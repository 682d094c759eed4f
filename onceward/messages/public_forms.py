"""Mails that a form without a login causes: how many there may be, and what a stranger's text may contain.

Anybody can enter anybody's address in such a form. So that nobody can use it to flood a person or to send them a link
under our name, every such form calls `limit_public_mail` before it queues a mail, and takes names with `plain_name`.
"""

from __future__ import annotations

import re
import unicodedata

from onceward.db import Database
from onceward.errors import OncewardError
from onceward.limits import Rate
from onceward.trust import fingerprint

LONGEST_NAME = 80
HOUR_S = 3600.0
PER_RECIPIENT = Rate(10, per_s=HOUR_S)
"""Over all forms and organizations: the recipient suffers from their sum."""
PER_SENDER = Rate(20, per_s=HOUR_S)
"""Of one order, one student or another holder of a token."""
PER_ADDRESS = Rate(300, per_s=HOUR_S)
"""Of one client address. Many people may share it, for example the visitors of a fair."""

MAILS = (
    f"mails an hour: {PER_RECIPIENT.at_most} per recipient, {PER_SENDER.at_most} per link,"
    f" {PER_ADDRESS.at_most} per address"
)
"""The limits of `limit_public_mail`, as the table of routes shows them."""

# A scheme, `www.`, or a host name with a path: removed. Another dot within a word gets a space, which no mail program
# links.
URL = re.compile(r"\S*://\S*|\bwww\.\S*|\S+\.\w{2,}/\S*", re.IGNORECASE)
INNER_DOT = re.compile(r"(?<=\w)[.\u3002\uff0e\uff61](?=\w)")


class TooManyMails(OncewardError):
    """`retry_after_s` is the time in seconds after which the same request may succeed."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many mails were requested: try again in {retry_after_s} seconds")
        self.retry_after_s = retry_after_s


async def limit_public_mail(db: Database, *, to: str, client: str, sender: str | None = None) -> None:
    """Count a mail that a stranger requests. Raises `TooManyMails` if it is over one of the three limits.

    `client` is the address that the request comes from, `sender` the holder of the token that allows it, such as
    `order:<id>`. The count is a transaction of its own, so requests that fail later count too.
    """
    keys = [(PER_ADDRESS, f"public-mail:address:{fingerprint(client).hex()}")]
    if sender is not None:
        keys.append((PER_SENDER, f"public-mail:sender:{sender}"))
    keys.append((PER_RECIPIENT, f"public-mail:to:{to.strip().casefold()}"))
    async with db.acquire() as conn:
        for rate, key in keys:
            if wait_s := await rate.take(conn, key):
                raise TooManyMails(wait_s)


def plain_name(text: str) -> str:
    """Return the name of a person without URLs, control characters and line breaks, and at most `LONGEST_NAME` long."""
    visible = "".join(" " if unicodedata.category(each)[0] in "CZ" else each for each in text)
    plain = INNER_DOT.sub(". ", URL.sub(" ", visible)).replace("@", " ")
    return " ".join(plain.split())[:LONGEST_NAME].rstrip()
