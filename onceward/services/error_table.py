"""The error codes of one service, by what they mean for a call.

Each integration with a channel has such a table in `errors.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .outcome import Refused, ServiceAnswer, Throttled, Unknown

Code = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTable:
    """What each documented code means. A code in no field is judged by its HTTP status."""

    account: Mapping[Code, str]
    """The account cannot send until an operator does what the text says."""
    template: Mapping[Code, str] = field(default_factory=dict[Code, str])
    """The template cannot be sent until an operator does what the text says; the account works."""
    recipient: frozenset[Code] = frozenset()
    """This recipient cannot be reached; others can."""
    opted_out: frozenset[Code] = frozenset()
    """This recipient has opted out at the service."""
    message: frozenset[Code] = frozenset()
    """The content or its form is wrong; other messages can be sent."""
    throttled: Mapping[Code, float | None] = field(default_factory=dict[Code, float | None])
    """Too many calls, with the seconds to wait if the service documents them."""
    passing: frozenset[Code] = frozenset()
    """The service did not act and may act later."""
    unsure: frozenset[Code] = frozenset()
    """The service may have acted."""

    def judge(self, code: object, reason: str, *, retry_after_s: float | None = None) -> ServiceAnswer | None:
        """Return the answer that a code means, or None if the table does not have the code."""
        if not isinstance(code, int | str):
            return None
        detail = {"code": code}
        if code in self.account:
            return Refused(reason, permanent=False, detail=detail, account=True, advice=self.account[code])
        if code in self.template:
            advice = self.template[code]
            return Refused(reason, permanent=False, detail=detail, account=True, advice=advice, template=True)
        if code in self.throttled:
            return Throttled(retry_after_s if retry_after_s is not None else self.throttled[code])
        if code in self.passing:
            return Refused(reason, permanent=False, retry_after_s=retry_after_s, detail=detail)
        if code in self.unsure:
            return Unknown(reason)
        if code in self.opted_out:
            return Refused(reason, permanent=True, detail=detail | {"opted_out": True}, recipient=True)
        if code in self.recipient:
            return Refused(reason, permanent=True, detail=detail, recipient=True)
        if code in self.message:
            return Refused(reason, permanent=True, detail=detail)
        return None
