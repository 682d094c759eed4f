"""Which language models write which step, what they cost, and how much may be spent in a month.

The settings are those of the installation; an organization may have its own for each step, model and cap.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onceward_apps.coursegen.model import MICROS, STEPS, Prices

if TYPE_CHECKING:
    from onceward_apps.coursegen.app import CoursegenSettings

PROVIDERS = ("openai", "anthropic", "openai_compatible")
"""The chat services of Onceward. Each organization may have its own account at each."""
ALL = "*"
MOST_MODELS = 5


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A model of a provider. `model` None: the default model of the account."""

    provider: str
    model: str | None

    @classmethod
    def parse(cls, text: str, *, name: str) -> ModelRef:
        provider, _, model = text.strip().partition("/")
        if provider not in PROVIDERS:
            raise ValueError(f"{name}: {provider!r} is not one of {', '.join(PROVIDERS)}")
        return cls(provider, model.strip() or None)

    @property
    def name(self) -> str:
        return self.provider if self.model is None else f"{self.provider}/{self.model}"


Models = Mapping[str, tuple[ModelRef, ...]]


def parse_models(text: str, *, name: str = "ONCEWARD_COURSEGEN_MODELS") -> Models:
    """Return the models of each step, the first choice first, from `lessons=anthropic/claude-x|openai, *=openai`."""
    models: dict[str, tuple[ModelRef, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        step, is_pair, choices = part.partition("=")
        step = step.strip()
        if not is_pair or step not in (*STEPS[1:], ALL):
            raise ValueError(f"{name}: {part!r} must have the form STEP=MODEL|MODEL with {', '.join(STEPS[1:])} or *")
        refs = tuple(ModelRef.parse(each, name=name) for each in choices.split("|"))
        if len(refs) > MOST_MODELS:
            raise ValueError(f"{name}: {step} has {len(refs)} models, at most {MOST_MODELS} are allowed")
        models[step] = refs
    return models


def parse_prices(text: str, *, name: str = "ONCEWARD_COURSEGEN_PRICES") -> dict[str, Prices]:
    """Return the prices of models, from `openai/gpt-x=2.5:10`: US dollars for a million input and output tokens."""
    prices: dict[str, Prices] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        model, _, amounts = part.partition("=")
        try:
            paid = [float(each) for each in amounts.split(":")]
        except ValueError:
            paid = []
        if len(paid) != 2 or not all(0 <= each < math.inf for each in paid):
            raise ValueError(f"{name}: {part!r} must have the form PROVIDER/MODEL=INPUT:OUTPUT in US dollars")
        prices[ModelRef.parse(model, name=name).name] = Prices.of(*paid)
    return prices


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What applies to the courses of one organization."""

    models: Models
    prices: Mapping[str, Prices]
    default_prices: Prices
    organization_cap_micros: int | None = None
    user_cap_micros: int | None = None

    def models_of(self, step: int) -> tuple[ModelRef, ...]:
        """Return the models for a step, the first choice first."""
        return self.models.get(STEPS[step - 1]) or self.models.get(ALL) or (ModelRef("openai", None),)

    def prices_of(self, *names: str) -> Prices:
        """Return the prices of a model that is known under these names."""
        return next((self.prices[name] for name in names if name in self.prices), self.default_prices)

    @property
    def has_caps(self) -> bool:
        return self.organization_cap_micros is not None or self.user_cap_micros is not None


def plan_of(settings: CoursegenSettings, own: Any = None) -> Plan:
    """Return the plan of an organization. `own` is its row of settings, or None."""
    caps = [_micros(settings.organization_monthly_cap_usd), _micros(settings.user_monthly_cap_usd)]
    models, prices = dict(parse_models(settings.models)), parse_prices(settings.prices)
    if own is not None:
        models |= parse_models(own["models"])
        prices |= parse_prices(own["prices"])
        for position, column in enumerate(("monthly_cap_micros", "user_cap_micros")):
            if own[column] is not None:
                caps[position] = own[column]
    return Plan(
        models=models,
        prices=prices,
        default_prices=Prices.of(settings.input_usd_per_million, settings.output_usd_per_million),
        organization_cap_micros=caps[0],
        user_cap_micros=caps[1],
    )


def _micros(usd: float | None) -> int | None:
    return None if usd is None else round(usd * MICROS)
