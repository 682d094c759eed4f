"""Routes for operators about certificates: issue one again after a corrected name, revoke one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel

from onceward.web import exposed
from onceward_apps.learning import certificates
from onceward_apps.learning.errors import NotFound
from onceward_apps.learning.routes.requests import EngineHere, Operator, Reason, acting

router = APIRouter(prefix="/api/v1/learning", tags=["learning: operators"])


class ReasonIn(BaseModel):
    reason: Reason


@router.post("/enrollments/{enrollment_id}/certificate/reissue", status_code=201)
@exposed("mail", "call")
async def reissue_certificate(
    engine: EngineHere, who: Operator, enrollment_id: UUID, requested: ReasonIn
) -> dict[str, str]:
    """Issue the certificate again with the name that the student has now. The older one is not valid any more."""
    async with acting(engine, who.organization) as tx:
        issued = await certificates.reissue(tx, enrollment_id, reason=requested.reason, actor=who.actor)
    return {"credential_id": issued}


@router.post("/enrollments/{enrollment_id}/certificate/revoke")
@exposed("nothing")
async def revoke_certificate(
    engine: EngineHere, who: Operator, enrollment_id: UUID, requested: ReasonIn
) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        revoked = await certificates.revoke_certificate(tx, enrollment_id, reason=requested.reason)
        if not revoked:
            raise NotFound(f"enrolment {enrollment_id} has no valid certificate")
        details = {"entity_type": "Enrollment", "entity_id": enrollment_id, "reason": requested.reason}
        await tx.audit("certificate_revoked", **details, actor=who.actor)
    return {"revoked": True}
