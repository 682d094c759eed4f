"""The rules of course generation, as pure functions: states, limits, costs.

course  draft ──generate──▶ queued ──slot──▶ generating ──▶ completed
          ▲                   │ ▲                ├────────▶ failed      an error, the budget, the time, lost workers
          │                   │ └──wait, no slot─┤
          │                   └──────cancel──────┴────────▶ cancelled
          │
          └ never again.      failed, cancelled ──resume──▶ queued    finished lessons are kept
                              completed ──restart, rewrite a lesson──▶ queued    a new version, beside the one
                                                              that is shown; if it is not finished, the course is
                                                              completed as before
step    pending ──▶ in_progress ──▶ completed;  in_progress ──▶ failed ──▶ in_progress
call    started ──▶ done | failed | stopped (by us: budget, time, cancel) | lost (the process died)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

Status = Literal["draft", "queued", "generating", "completed", "failed", "cancelled"]
RUNNING: frozenset[str] = frozenset({"queued", "generating"})
Start = Literal["first", "resume", "restart", "rewrite"]

STEPS = ("initialise", "outline", "lessons", "exercises", "review")
"""The names of steps 1 to 5."""

ErrorCode = Literal[
    "budget_exceeded",
    "monthly_cap",
    "timeout",
    "content_refused",
    "invalid_output",
    "provider_refused",
    "provider_unavailable",
    "cancelled",
    "worker_lost",
    "internal",
]

MICROS = 1_000_000
"""Costs are integers in millionths of a US dollar: one call costs much less than a cent."""


def start_of(status: str, *, restart: bool, unfinished: bool = False) -> Start | None:
    """Return what a request to generate means for a course in this state. None: a completed course needs `restart`.

    `unfinished`: a newer version of a completed course was begun and not finished. It is continued.
    """
    if status == "draft":
        return "first"
    if restart:
        return "restart"
    if status == "completed" and not unfinished:
        return None
    return "resume"


# -- costs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per million tokens, in micros. So one token costs `input_micros / MICROS` micros."""

    input_micros: int
    output_micros: int

    @classmethod
    def of(cls, input_usd_per_million: float, output_usd_per_million: float) -> Prices:
        return cls(round(input_usd_per_million * MICROS), round(output_usd_per_million * MICROS))

    def cost(self, prompt_tokens: int, completion_tokens: int) -> int:
        """Return the cost of a call in micros, rounded up."""
        return -(-(prompt_tokens * self.input_micros + completion_tokens * self.output_micros) // MICROS)

    def affordable_tokens(self, left_micros: int, prompt_tokens: int) -> int:
        """Return how many output tokens the rest of a budget pays for, after the prompt."""
        left = left_micros * MICROS - prompt_tokens * self.input_micros
        if left <= 0:
            return 0
        return left // self.output_micros if self.output_micros else 1_000_000_000


def estimated_tokens(text: str) -> int:
    """Return an upper estimate of the tokens of a text: a token has about four letters, outside ASCII about one."""
    ascii_letters = sum(1 for letter in text if letter.isascii())
    return math.ceil(ascii_letters / 3) + (len(text) - ascii_letters)


def parse_caps(text: str) -> dict[str, int]:
    """Return the monthly cap of each tier in micros, from `FREE=20,BASIC=100` (US dollars)."""
    caps: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        tier, _, amount = part.partition("=")
        try:
            value = float(amount)
        except ValueError:
            value = math.nan
        if not tier.strip() or not 0 <= value < math.inf:
            raise ValueError(f"ONCEWARD_COURSEGEN_MONTHLY_CAPS_USD: {part!r} must have the form TIER=dollars")
        caps[tier.strip().upper()] = round(value * MICROS)
    return caps


def month_of(moment: datetime) -> date:
    return moment.date().replace(day=1)


def seconds_to_next_month(moment: datetime) -> int:
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=32)).replace(day=1)
    return math.ceil((following - moment).total_seconds())


# -- progress --------------------------------------------------------------------------------------------------------


def step_of(progress: Mapping[str, Any] | None, number: int) -> Mapping[str, Any]:
    """Return one step of a progress, or a pending one if the course has no progress yet."""
    steps = (progress or {}).get("steps") or []
    return steps[number - 1] if len(steps) == 5 else {"status": "pending", "metadata": {}}


def is_completed(progress: Mapping[str, Any] | None, number: int) -> bool:
    return step_of(progress, number).get("status") == "completed"


def unfinished_step(progress: Mapping[str, Any] | None) -> int | None:
    """Return the number of the first step that is not completed, or None if all are."""
    return next((number for number in range(1, 6) if not is_completed(progress, number)), None)
