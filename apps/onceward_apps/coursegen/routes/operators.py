"""Routes for operators of an organization: the tier of a user, and the models, prices and caps of the organization."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from onceward.web import Problem, exposed
from onceward_apps.coursegen.app import tiers
from onceward_apps.coursegen.model import MICROS
from onceward_apps.coursegen.models import parse_models, parse_prices
from onceward_apps.coursegen.routes.requests import EngineHere, Operator
from onceward_apps.coursegen.store import costs, courses

router = APIRouter(prefix="/api/v1/coursegen", tags=["coursegen: operators"])


class TierIn(BaseModel):
    tier: Annotated[
        str, StringConstraints(strip_whitespace=True, to_upper=True, pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")
    ]


@router.put("/users/{user_id}")
@exposed("nothing")
async def set_tier(engine: EngineHere, who: Operator, user_id: UUID, requested: TierIn) -> dict[str, Any]:
    """Set the tier of a user. Running courses keep the slots they have."""
    if requested.tier not in tiers().at_most:
        raise Problem(422, f"tier {requested.tier} is not one of {', '.join(tiers().at_most)}")
    if who.organization is None:
        raise Problem(422, "choose an organization with the header X-Organization")
    async with engine.transaction(organization=who.organization) as tx:
        if await courses.set_tier(tx, user_id, requested.tier):
            await tx.audit(
                "coursegen.tier_set",
                entity_type="coursegen_user",
                entity_id=user_id,
                changes={"tier": requested.tier},
                actor=who.actor,
            )
    return {"user_id": user_id, "tier": requested.tier, "limit": tiers().of(requested.tier)}


class ModelsIn(BaseModel):
    """What the organization has of its own. What is left out is the installation's."""

    model_config = ConfigDict(extra="forbid")

    models: Annotated[str, StringConstraints(max_length=2000)] = ""
    prices: Annotated[str, StringConstraints(max_length=2000)] = ""
    monthly_cap: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None
    user_monthly_cap: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] | None = None

    @field_validator("models")
    @classmethod
    def check_models(cls, value: str) -> str:
        parse_models(value, name="models")
        return value

    @field_validator("prices")
    @classmethod
    def check_prices(cls, value: str) -> str:
        parse_prices(value, name="prices")
        return value


@router.put("/models")
@exposed("nothing")
async def set_models(engine: EngineHere, who: Operator, requested: ModelsIn) -> dict[str, Any]:
    """Set the models of each step, their prices, and what may be spent in a month (US dollars)."""
    if who.organization is None:
        raise Problem(422, "choose an organization with the header X-Organization")
    async with engine.transaction(organization=who.organization) as tx:
        changed = await costs.set_own(
            tx,
            models=requested.models,
            prices=requested.prices,
            monthly_cap_micros=_micros(requested.monthly_cap),
            user_cap_micros=_micros(requested.user_monthly_cap),
        )
        if changed:
            await tx.audit(
                "coursegen.models_set",
                entity_type="organization",
                entity_id=who.organization,
                changes=requested.model_dump(),
                actor=who.actor,
            )
    return requested.model_dump()


def _micros(usd: float | None) -> int | None:
    return None if usd is None else round(usd * MICROS)
