"""GitHub: `X-Hub-Signature-256: sha256=..`, HMAC-SHA256 of the body, JSON or a form with `payload`."""

from __future__ import annotations

from uuid import uuid4

from pydantic import BaseModel

from onceward.webhooks.events import Events, Header, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import body_key
from onceward.webhooks.provider import Binding, NoOptions, Provider, Request, SourceConfig


class GitHubOptions(NoOptions):
    """`once_per_body` refuses a body that came before under another delivery id, which the signature does not cover."""

    once_per_body: bool = False


class GitHub(Provider):
    """GitHub never retries by itself. The event id is `X-GitHub-Delivery`, the same for a manual redelivery."""

    name = "github"
    title = "GitHub"
    retries = False
    options_model: type[BaseModel] = GitHubOptions

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
