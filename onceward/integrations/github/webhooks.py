"""GitHub: `X-Hub-Signature-256: sha256=..`, HMAC-SHA256 of the body, JSON or a form with `payload`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from onceward.webhooks.events import Events, Header, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import body_key
from onceward.webhooks.provider import Binding, NoOptions, Provider, Request, SourceConfig
from onceward.webhooks.samples import apply_fields, hex_token, iso_now


class GitHubOptions(NoOptions):
    """`once_per_body` refuses a body that came before under another delivery id, which the signature does not cover."""

    once_per_body: bool = False


class GitHub(Provider):
    """GitHub never retries by itself. The event id is `X-GitHub-Delivery`, the same for a manual redelivery."""

    name = "github"
    title = "GitHub"
    retries = False
    options_model: type[BaseModel] = GitHubOptions
    sample_types = ("push", "ping", "issues.opened", "pull_request.opened")

    verification = Hmac(header="x-hub-signature-256", prefix="sha256=")
    events = Events(
        id=Header("x-github-delivery"),
        type=Join(Header("x-github-event"), "action"),
        ordering="repository.full_name",
        form_field="payload",
        strict=True,
    )

    def binds(self, config: SourceConfig) -> bool:
        return config.settings.once_per_body

    def binding(self, config: SourceConfig, request: Request) -> Binding | None:
        if not config.settings.once_per_body:
            return None
        headers = f"{request.header('x-github-delivery')} {request.header('x-github-event')}"
        problem = "this body was received under another delivery id or event name: somebody may have sent it again"
        return Binding(body_key(request.body), headers.encode("utf-8", "surrogatepass"), problem)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {
            "content-type": "application/json",
            "user-agent": "GitHub-Hookshot/onceward",
            "x-github-delivery": extra.get("event_id") or str(uuid4()),
            # `issues.opened` is the event `issues` whose body has the action `opened`.
            "x-github-event": extra.get("type", "push").partition(".")[0],
            **self.verification.sign(config, body, now),
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
