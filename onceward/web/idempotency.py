"""The header `Idempotency-Key`: a repeated POST gets the stored response of the first one, and nothing happens twice.

`require` (auth.py) takes the key for every POST of an authenticated caller; `StoredResponses` stores the response
before it is sent. A key belongs to the caller (organization, kind and subject) and to the path, and is valid for 24
hours: another caller with the same key, even of the same organization, gets nothing of the first one's response and
does not block it.

- The same key with another query or body is refused (409).
- The same key while the first request runs is refused (409, Retry-After). If the process stopped before it answered,
  the key stays refused: the effect may have happened, so the caller has to look it up.
- A response that says that nothing happened (4xx, or 503 with Retry-After) releases the key.
- Secrets in a response are not stored: a route names their members with `withholds`, and a repeated request gets null
  instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import orjson
from fastapi import Depends, FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onceward.db import Database
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.trust.identity import Identity, Principal
from onceward.trust.secrets import SecretBox
from onceward.web.problems import Problem

HEADER = "idempotency-key"
REPLAYED = "Idempotency-Replayed"
WITHHELD = "Idempotency-Withheld"
"""The members of a repeated response that were secret in the first one, and are null now."""
LONGEST_KEY = 255
IN_SCOPE = "onceward.idempotency_key"
SECRETS = "onceward.secret_members"
INSTANCE = UUID(int=0)
TABLE = "onceward.idempotency_keys"

TAKE = read_statement("web", "take_idempotency_key")
FIND = read_statement("web", "find_idempotency_key")
SAVE = read_statement("web", "save_idempotent_response")
PRUNE = read_statement("web", "prune_idempotency_keys")
RELEASE = "delete from onceward.idempotency_keys where id = $1 and status is null"


class StoredResponse(OncewardError):
    """Raised in place of a route that has already answered this request."""

    def __init__(self, response: Response) -> None:
        super().__init__("this request has already been answered")
        self.response = response


class KeyStore:
    """Takes keys, and stores the responses encrypted."""

    def __init__(self, database: Database, box: Callable[[], SecretBox]) -> None:
        self._database = database
        self._make_box = box
        self._box: SecretBox | None = None

    async def take(self, request: Request, identity: Identity) -> None:
        """Take the key of the request, if it has one. Raises `StoredResponse`, or `Problem` if the key cannot be
        used."""
        key = request.headers.get(HEADER)
        if key is None or request.method != "POST":
            return
        if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable() or not key.isascii():
            raise Problem(400, f"Idempotency-Key must have 1 to {LONGEST_KEY} printable ASCII characters")
        organization = identity.organization or INSTANCE
        scope = _scope(identity.principal, request.url.path)
        request_hash = _hash(request.url.query.encode(), await request.body())
        async with self._database.transaction(role="engine") as tx:
            taken: UUID | None = await tx.fetchval(TAKE, organization, scope, key, request_hash)
            row = None if taken is not None else await tx.fetchrow(FIND, organization, scope, key)
        if taken is not None:
            request.scope[IN_SCOPE] = taken
            return
        if row is None:
            raise _still_running()  # released between the two statements
        if bytes(row["request_hash"]) != request_hash:
            raise Problem(
                409, "this Idempotency-Key was already used for a different request; use a new key", kind="key-reused"
            )
        if row["status"] is None:
            raise _still_running()
        body = self._sealer.open(bytes(row["body"]), table=TABLE, row=row["id"], column="body")
        withheld: list[str] = row["withheld"]
        headers = {REPLAYED: "true"} | ({WITHHELD: ", ".join(withheld)} if withheld else {})
        raise StoredResponse(Response(body, row["status"], headers=headers, media_type=row["content_type"]))

    async def save(
        self, taken: UUID, status: int, content_type: str | None, body: bytes, *, secrets: frozenset[str]
    ) -> None:
        if secrets:
            body = _without(body, secrets)
        sealed = self._sealer.seal(body, table=TABLE, row=taken, column="body")
        async with self._database.transaction(role="engine") as tx:
            await tx.execute(SAVE, taken, status, content_type, sealed, sorted(secrets))

    async def release(self, taken: UUID) -> None:
        async with self._database.transaction(role="engine") as tx:
            await tx.execute(RELEASE, taken)

    @property
    def _sealer(self) -> SecretBox:
        if self._box is None:
            self._box = self._make_box()
        return self._box


class StoredResponses:
    """Wraps the API: stores the response of a request that took a key, then sends it."""

    def __init__(self, api: ASGIApp, store: KeyStore) -> None:
        self._api = api
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            if IN_SCOPE not in scope:
                await send(message)
                return
            messages.append(message)
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                await self._keep(scope[IN_SCOPE], messages, scope.get(SECRETS, frozenset()))
                for each in messages:
                    await send(each)

        await self._api(scope, receive, collect)

    async def _keep(self, taken: UUID, messages: list[Message], secrets: frozenset[str]) -> None:
        head = messages[0]
        status: int = head["status"]
        headers = Headers(raw=head["headers"])
        if 400 <= status < 500 or (status == 503 and "retry-after" in headers):
            await self._store.release(taken)
            return
        body = b"".join(message.get("body", b"") for message in messages[1:])
        await self._store.save(taken, status, headers.get("content-type"), body, secrets=secrets)


def withholds(*members: str) -> Any:
    """Return a dependency of a route whose JSON response has secrets in these members, at any depth."""

    def declare(request: Request) -> None:
        request.scope[SECRETS] = frozenset(members)

    return Depends(declare)


def install(api: FastAPI) -> None:
    """Add the handler that sends a stored response."""

    async def on_stored(_request: Request, error: Exception) -> Response:
        assert isinstance(error, StoredResponse)
        return error.response

    api.add_exception_handler(StoredResponse, on_stored)


def _scope(principal: Principal, path: str) -> bytes:
    """Return a hash of whom and which route a key belongs to."""
    return _hash(principal.kind.encode(), principal.sub.encode(), path.encode())


def _without(body: bytes, secrets: frozenset[str]) -> bytes:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            return {name: None if name in secrets else strip(each) for name, each in members.items()}
        return [strip(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value

    return orjson.dumps(strip(orjson.loads(body)))


def _hash(*parts: bytes) -> bytes:
    """Return a hash of the parts. Lengths keep them apart."""
    joined = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(joined).digest()


def _still_running() -> Problem:
    return Problem(
        409,
        "a request with this Idempotency-Key is running, or its process stopped before it answered: try again, and if "
        "this stays so, look up the result before you use a new key",
        kind="key-in-use",
        headers={"Retry-After": "1"},
    )
