"""What the replies of a relay mean. Sources: RFC 5321, RFC 3463 (enhanced status codes), RFC 4954 (login).

The stage decides with the code: a refused login or sender concerns the account, a refused recipient or content only the
mail.
"""

from onceward.integrations.smtp.session import Refusal
from onceward.messages.bounces import is_permanent
from onceward.services.outcome import Refused, Throttled

LOGIN = "Check ONCEWARD_SMTP_USERNAME and ONCEWARD_SMTP_PASSWORD: the relay refuses the login."
SENDER = "The relay refuses the sender: check ONCEWARD_MAIL_FROM, and that the login may send for it."
CLOSING = 421
"""The relay ends the connection: it is stopping, overloaded, or the client was idle for too long."""
LOGIN_NEEDED = frozenset({530, 534, 535, 538})
QUOTA = ("4.5.3", "5.4.5", "4.7.28")
"""Enhanced codes with which relays say that a quota is used up: too many recipients, the limit of a day, the rate of
a sender."""
QUOTA_S = 900.0


def judge_login(code: int) -> Refused | Throttled:
    """Convert a refused login. 4xx: the relay cannot check it now."""
    if 400 <= code < 500:
        return Throttled(None)
    return Refused(f"relay refused the login ({code})", permanent=False, account=True, advice=LOGIN)


def judge_refusal(refusal: Refusal) -> Refused | Throttled:
    """Convert a refusal: 4xx may be retried, 5xx not. Only the code is kept, because the text may contain the
    address."""
    code, text = refusal.reply
    enhanced = text.split(" ", 1)[0] if text[:2] in ("4.", "5.") else ""
    reason = f"relay refused {refusal.what} ({code}{' ' + enhanced if enhanced else ''})"
    if code == CLOSING:
        return Throttled(None)
    if enhanced in QUOTA:
        return Throttled(QUOTA_S)
    if code in LOGIN_NEEDED:
        return Refused(reason, permanent=False, account=True, advice=LOGIN)
    if code >= 500 and refusal.what in ("the sender", "the connection"):
        return Refused(reason, permanent=False, account=True, advice=SENDER)
    is_recipient = code >= 500 and refusal.what == "the recipient"
    detail = {"undeliverable": enhanced} if is_recipient and is_permanent(enhanced) else {}
    return Refused(reason, permanent=code >= 500, detail=detail, recipient=is_recipient)
