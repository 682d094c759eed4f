"""HTTP routes of endpoints and their secrets."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from onceward.outbox import Endpoint, EndpointFields, Invalid
from onceward.outbox.endpoint import MOST_IN_FLIGHT, MOST_PER_S
from onceward.outbox.endpoints import LONGEST_OVERLAP
from onceward.outbox.routes.callers import (
    Channels,
    Owner,
    RecentOwner,
    TheOutbox,
    Types,
    Viewer,
    sees_all,
)
from onceward.outbox.schedule import LONGEST_WAIT_S, MOST_WAITS
from onceward.web.exposure import ANYBODY, exposed
from onceward.web.fields import AtMost, Text, example
from onceward.web.idempotency import withholds
from onceward.web.paging import link_next

router = APIRouter(prefix="/api/v1", tags=["outbound webhooks"])

InFlight = Annotated[int, Field(ge=1, le=MOST_IN_FLIGHT)]
Rate = Annotated[float, Field(ge=0.001, le=MOST_PER_S)]
Wait = Annotated[float, Field(ge=1, le=LONGEST_WAIT_S)]


Expression = Annotated[str, Field(min_length=1, max_length=2000, description="A JMESPath expression over the event.")]


class EndpointAuth(BaseModel):
    """`oauth` fetches a token with client credentials; `mutual_tls` presents a client certificate."""

    model_config = {
        "extra": "forbid",
        **example(
            kind="oauth", token_url="https://login.customer.example/token", client_id="onceward", client_secret="..."
        ),
    }

    kind: Literal["oauth", "mutual_tls"]
    token_url: Text | None = None
    client_id: Text | None = None
    client_secret: Text | None = None
    scope: Text | None = None
    audience: Text | None = None
    certificate: Text | None = Field(None, description="In PEM, with its chain.")
    private_key: Text | None = Field(None, description="In PEM, without a password.")


class NewEndpoint(BaseModel):
    """`secret` has 24 to 64 bytes: `whsec_` and base64, or plain text.

    If omitted, a secret is generated and shown once.
    """

    model_config = {
        "extra": "forbid",
        **example(url="https://customer.example/webhooks", events=["order.*"], description="accounting"),
    }

    url: str
    events: Types
    secret: str | None = None
    description: str = ""
    channels: Channels | None = None
    headers: Annotated[dict[str, str], AtMost(100)] = Field(default_factory=dict)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    owner: str | None = None
    max_in_flight: InFlight | None = None
    rate_per_s: Rate | None = None
    ordered: bool = False
    retry_waits_s: Annotated[list[Wait] | None, AtMost(MOST_WAITS)] = None
    ed25519: bool = False
    filter: Expression | None = None
    transform: Expression | None = None
    auth: EndpointAuth | None = None
    source: str | None = Field(None, max_length=200, description="Forward the events of this inbound source.")


class ChangedEndpoint(BaseModel):
    """The fields to change. Omitted fields keep their value."""

    model_config = {"extra": "forbid", **example(events=["order.paid", "order.refunded"], max_in_flight=4)}

    url: str | None = None
    events: Types | None = None
    description: str | None = None
    channels: Channels | None = None
    headers: Annotated[dict[str, str] | None, AtMost(100)] = None
    metadata: dict[str, JsonValue] | None = None
    owner: str | None = None
    max_in_flight: InFlight | None = None
    rate_per_s: Rate | None = None
    ordered: bool | None = None
    retry_waits_s: Annotated[list[Wait] | None, AtMost(MOST_WAITS)] = None
    ed25519: bool | None = None
    filter: Expression | None = None
    transform: Expression | None = None
    auth: EndpointAuth | None = None


class MadeEndpoint(BaseModel):
    """The new endpoint with its signing secret, which is never shown again: a repeated request gets null."""

    endpoint: Endpoint
    secret: str | None


class EndpointSecret(BaseModel):
    model_config = example(overlap_s=86_400)

    secret: str | None = None
    overlap_s: float = Field(86400, ge=0, le=LONGEST_OVERLAP.total_seconds())


@router.get("/endpoints")
async def listed(
    outbox: TheOutbox,
    request: Request,
    response: Response,
    identity: Viewer,
    after: UUID | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
) -> list[Endpoint]:
    """List endpoints, oldest first. `after` is the last id of the previous page; `Link` has the next page."""
    page = await outbox.endpoints.list(
        identity.organization, all_organizations=sees_all(identity), after=after, limit=limit
    )
    link_next(request, response, after=page[-1].endpoint_id if len(page) == limit else None)
    return page


@router.post("/endpoints", status_code=201, dependencies=[withholds("secret")])
@exposed("nothing")
async def register(outbox: TheOutbox, identity: RecentOwner, new: NewEndpoint) -> MadeEndpoint:
    fields = EndpointFields(**new.model_dump(exclude={"auth"}), auth=_auth(new.auth))
    created = await outbox.endpoints.register(identity.organization, fields, actor=identity)
    return MadeEndpoint(endpoint=created.endpoint, secret=created.secret)


@router.get("/endpoints/{endpoint_id}")
async def one(outbox: TheOutbox, identity: Viewer, endpoint_id: UUID) -> Endpoint:
    return await outbox.endpoints.get(identity.organization, endpoint_id)


@router.patch("/endpoints/{endpoint_id}")
@exposed("nothing")
async def change(outbox: TheOutbox, identity: Owner, endpoint_id: UUID, new: ChangedEndpoint) -> Endpoint:
    changes = new.model_dump(exclude_unset=True)
    if "auth" in changes:
        changes["auth"] = _auth(new.auth)
    for name in ("url", "events", "description", "headers", "metadata", "ordered", "ed25519"):
        if name in changes and changes[name] is None:
            raise Invalid(name, "must not be null; omit it to keep its value")
    return await outbox.endpoints.change(identity.organization, endpoint_id, changes, actor=identity)


def _auth(auth: EndpointAuth | None) -> dict[str, Any] | None:
    return None if auth is None else auth.model_dump(exclude_none=True)


@router.delete("/endpoints/{endpoint_id}", status_code=204)
@exposed("nothing")
async def delete(outbox: TheOutbox, identity: Owner, endpoint_id: UUID) -> None:
    await outbox.endpoints.delete(identity.organization, endpoint_id, actor=identity)


@router.post("/endpoints/{endpoint_id}/secret", dependencies=[withholds("secret")])
@exposed("nothing")
async def rotate(
    outbox: TheOutbox, identity: RecentOwner, endpoint_id: UUID, requested: EndpointSecret
) -> dict[str, str]:
    secret = await outbox.endpoints.rotate_secret(
        identity.organization,
        endpoint_id,
        actor=identity,
        secret=requested.secret,
        overlap=timedelta(seconds=requested.overlap_s),
    )
    return {"secret": secret}


@router.get("/webhook-keys/{organization_id}")
@exposed(credential=ANYBODY)
async def public_keys(outbox: TheOutbox, organization_id: UUID) -> dict[str, list[str]]:
    """Return the public keys that verify the `v1a` signatures of this organization. Needs no authentication."""
    return {"keys": await outbox.endpoints.public_keys(organization_id)}
