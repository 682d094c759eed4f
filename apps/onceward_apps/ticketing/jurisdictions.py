"""Whose tax an event has. A jurisdiction says the rate of a category on a date, and whether prices must include it.

A distribution adds one as an entry point of the group `onceward.ticketing.jurisdictions`: a value with the fields
of `Jurisdiction`.
An organizer who names none sets the rate by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from onceward_apps.ticketing.errors import Invalid

GROUP = "onceward.ticketing.jurisdictions"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxRule:
    """What applies to a sale: the rate in basis points, whether prices must include it, and what invoices must say."""

    bps: int
    is_included: bool
    note: str = ""


class Jurisdiction(Protocol):
    """The tax of one country or state. `code` is that of ISO 3166: `ZA`."""

    @property
    def code(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def categories(self) -> Mapping[str, str]:
        """What an event can be for the tax, each with words for people."""
        ...

    def rule(self, category: str, on: date) -> TaxRule:
        """Return the rule for events of a category on this date."""
        ...


@dataclass(frozen=True, slots=True)
class SouthAfrica:
    """Value-added tax of South Africa: one standard rate, and prices that consumers see include it.

    Value-Added Tax Act 89 of 1991: section 7(1) the rate, 15 % since 1 April 2018 and 14 % before; section 65 prices
    include the tax. A person who makes taxable supplies below the threshold of section 23 need not be registered, and
    then charges none.
    """

    code: str = "ZA"
    title: str = "South Africa"

    @property
    def categories(self) -> Mapping[str, str]:
        return {"standard": "Registered for VAT", "unregistered": "Not registered for VAT"}

    def rule(self, category: str, on: date) -> TaxRule:
        match category:
            case "standard":
                return TaxRule(bps=1500 if on >= date(2018, 4, 1) else 1400, is_included=True, note="Tax invoice")
            case "unregistered":
                return TaxRule(bps=0, is_included=True, note="The seller is not registered for VAT.")
            case _:
                raise Invalid(f"category {category!r} is not one of {', '.join(self.categories)} in {self.title}")


@cache
def jurisdictions() -> Mapping[str, Jurisdiction]:
    """Return the known jurisdictions by their code."""
    known: Sequence[Jurisdiction] = (SouthAfrica(), *(entry.load() for entry in entry_points(group=GROUP)))
    return {each.code: each for each in known}


def rule_of(code: str, category: str, on: date) -> TaxRule:
    """Return the rule of a jurisdiction. Raises `Invalid`, which says which ones there are."""
    if code not in jurisdictions():
        raise Invalid(f"jurisdiction {code!r} is unknown: use one of {', '.join(jurisdictions())}, or give tax_bps")
    return jurisdictions()[code].rule(category, on)
