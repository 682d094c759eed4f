"""The result of one check of `onceward doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `remedy` says what to do; it is empty if there is nothing to do."""

    check: str
    status: Status
    finding: str
    remedy: str = ""
