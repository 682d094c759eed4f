"""Routes for operators of an organization: the tier of a user."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, StringConstraints

from onceward.web import Problem, exposed
from onceward_apps.coursegen.app import tiers
from onceward_apps.coursegen.routes.requests import EngineHere, Operator
from onceward_apps.coursegen.store import courses

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
