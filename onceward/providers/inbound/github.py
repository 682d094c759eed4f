"""GitHub: `X-Hub-Signature-256: sha256=..`, HMAC-SHA256 of the body, JSON or a form with `payload`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from uuid import uuid4

from onceward.providers.inbound import signature
from onceward.providers.inbound.payload import (
    Document,
    as_object,
    as_text,
    item,
    read_form,
    read_object,
)
from onceward.providers.inbound.provider import Provider, ReceivedItem, Rejected, Request, SourceConfig
from onceward.providers.inbound.samples import apply_fields, hex_token, iso_now

SCHEME: Final = signature.Scheme(header="x-hub-signature-256", label="sha256=")
_FORM: Final = "application/x-www-form-urlencoded"


class GitHub(Provider):
    """GitHub never retries by itself. The event id is `X-GitHub-Delivery`, the same for a manual redelivery."""

    name: ClassVar[str] = "github"
    title: ClassVar[str] = "GitHub"
    retries: ClassVar[bool] = False
    sample_types: ClassVar[tuple[str, ...]] = ("push", "ping", "issues.opened", "pull_request.opened")

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        signature.verify(SCHEME, config, request, now)

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        document = _read(request)
        event = request.header("x-github-event")
        action = document.value.get("action")
        repository = as_object(document.value.get("repository"))
        return [
            item(
                document,
                event_id=request.header("x-github-delivery"),
                type=f"{event}.{action}" if action and isinstance(action, str) else event,
                ordering=as_text(repository.get("full_name")),
            )
        ]

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {
            "content-type": "application/json",
            "user-agent": "GitHub-Hookshot/onceward",
            "x-github-delivery": extra.get("event_id") or str(uuid4()),
            # `issues.opened` is the event `issues` whose body has the action `opened`.
            "x-github-event": extra.get("type", "push").partition(".")[0],
            **signature.sign(SCHEME, config.keys[0], body, now),
        }

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        event, _, action = type.partition(".")
        payload: dict[str, Any] = {
            "repository": {
                "id": 1001,
                "full_name": "example/shop",
                "private": False,
                "default_branch": "main",
            },
            "sender": {"id": 2002, "login": "ada", "type": "User"},
        }
        if action:
            payload["action"] = action
        return apply_fields(payload | _details(event), fields)


def _read(request: Request) -> Document:
    if not request.headers.get("content-type", "").lower().startswith(_FORM):
        return read_object(request.body)
    fields = dict(read_form(request.body))
    if "payload" not in fields:
        raise Rejected("bad_body", "the form has no field payload")
    return read_object(fields["payload"].encode())


def _details(event: str) -> dict[str, Any]:
    commit = hex_token("", 40)
    match event:
        case "push":
            author = {"name": "Ada Example", "email": "ada@example.com", "username": "ada"}
            change = {"id": commit, "message": "Count seats once", "timestamp": iso_now(), "author": author}
            return {
                "ref": "refs/heads/main",
                "before": hex_token("", 40),
                "after": commit,
                "commits": [change],
                "head_commit": change,
                "pusher": {"name": "ada", "email": "ada@example.com"},
            }
        case "ping":
            return {
                "zen": "Answered is delivered.",
                "hook_id": 3003,
                "hook": {"type": "Repository"},
            }
        case "issues":
            return {"issue": {"id": 4004, "number": 17, "title": "Seat sold twice", "state": "open"}}
        case "pull_request":
            branch = {"ref": "count-seats", "sha": commit}
            return {
                "number": 18,
                "pull_request": {"id": 5005, "number": 18, "title": "Count seats once", "head": branch},
            }
        case _:
            return {}
