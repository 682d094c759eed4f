"""HTTP routes of trust: login, organizations, members, keys, secrets, audit."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.trust.routes.access import router as access_router
from onceward.trust.routes.evidence import router as evidence_router
from onceward.trust.routes.login import router as login_router
from onceward.trust.routes.passkeys import router as passkeys_router
from onceward.trust.routes.secrets import router as secrets_router
from onceward.trust.routes.single_sign_on import single_sign_on_router


def routers(context: Context) -> Sequence[APIRouter]:
    single_sign_on = single_sign_on_router(context)
    optional = () if single_sign_on is None else (single_sign_on,)
    return (
        login_router,
        passkeys_router,
        *optional,
        access_router,
        secrets_router,
        evidence_router,
    )
