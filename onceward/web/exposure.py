"""What a route exposes: the credential it needs, its limit, and what one call can cause outside of the database.

A route declares it below its own decorator, so that both are read together:

    @router.post("/orders/{id}/resend")
    @exposed("mail", credential="link of the order", limit="3 mails an hour per recipient")
    async def resend(...) -> ...

The credential of a route with `Depends(require(...))` is known from the dependency. A route that only reads causes
nothing and need not say so. `docs/security.md` lists all routes, and a test fails for a route that does not declare
what is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from onceward.errors import OncewardError

if TYPE_CHECKING:
    from onceward.web.asgi import Mount

Effect = Literal["nothing", "mail", "money", "call"]
"""`mail`: a mail, text message, push message or chat message to a person. `money`: a payment or a refund.
`call`: a request to the server of a customer, or one that another company charges for."""
NOTHING: tuple[Effect, ...] = ("nothing",)
"""For routes that have no effect outside."""
ANYTHING: tuple[Effect, ...] = ("mail", "money", "call")
"""For routes that start work of any kind, such as a replay."""
EFFECTS: tuple[Effect, ...] = ("nothing", "mail", "money", "call")
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
ANYBODY = "none"
"""The credential of a route that anybody may call."""
EXPOSURE = "__onceward_exposure__"
CREDENTIAL = "__onceward_credential__"

F = TypeVar("F", bound=Callable[..., Any])


class NotDeclared(OncewardError, LookupError):
    """A route does not declare its credential or what it causes."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What a route declares. `credential` is None if its dependencies say it."""

    causes: tuple[Effect, ...] = ()
    credential: str | None = None
    limit: str = ""

    def __post_init__(self) -> None:
        unknown = [each for each in self.causes if each not in EFFECTS]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not an effect of a route; use one of {', '.join(EFFECTS)}")
        if "nothing" in self.causes and len(self.causes) > 1:
            raise ValueError(f"a route that causes {', '.join(self.causes[1:])} cannot cause nothing")


@dataclass(frozen=True, slots=True)
class ExposedRoute:
    """One row of the table in docs/security.md."""

    method: str
    path: str
    credential: str
    limit: str
    causes: tuple[Effect, ...]


def exposed(*causes: Effect, credential: str | None = None, limit: str = "") -> Callable[[F], F]:
    """Declare what a route exposes. Without `causes`, for a route that only reads."""
    exposure = Exposure(causes, credential, limit)

    def declare(endpoint: F) -> F:
        setattr(endpoint, EXPOSURE, exposure)
        return endpoint

    return declare


def grants(credential: str) -> Callable[[F], F]:
    """Declare which credential a dependency of routes requires."""

    def declare(dependency: F) -> F:
        setattr(dependency, CREDENTIAL, credential)
        return dependency

    return declare


def exposed_mounts(mounts: Iterable[Mount]) -> Iterator[ExposedRoute]:
    """Yield the routes of the mounted ASGI applications. Raises `NotDeclared` for one without routes."""
    for mount in mounts:
        if not mount.exposes:
            raise NotDeclared(f"the application at {mount.prefix} needs Mount(exposes=...)")
        yield from mount.exposes


def exposed_routes(routes: Iterable[Any], prefix: str = "", above: tuple[Any, ...] = ()) -> Iterator[ExposedRoute]:
    """Yield each route of an API with what it exposes. Raises `NotDeclared` for one that does not declare it."""
    for route in routes:
        included = getattr(route, "original_router", None)  # newer FastAPI keeps routers whole
        if included is not None:
            inherited = (*above, *(each.dependency for each in included.dependencies))
            yield from exposed_routes(included.routes, prefix + route.include_context.prefix, inherited)
            continue
        for method in sorted(set(route.methods) - {"HEAD"}):
            yield _exposed(route, method, prefix + route.path, above)


def _exposed(route: Any, method: str, path: str, above: tuple[Any, ...]) -> ExposedRoute:
    declared = cast(Exposure, getattr(route.endpoint, EXPOSURE, Exposure()))
    credential = declared.credential or ", ".join(_credentials(route, above)) or None
    if credential is None:
        raise NotDeclared(f"{method} {path} needs @exposed(credential=...): none of its dependencies require one")
    causes = declared.causes or (("nothing",) if method in SAFE else ())
    if not causes:
        raise NotDeclared(f"{method} {path} needs @exposed(...): say what it can cause, or nothing")
    if credential == ANYBODY and method not in SAFE and not declared.limit:
        raise NotDeclared(f"{method} {path} is open to anybody and needs @exposed(limit=...)")
    shown = re.sub(r"\{(\w+):\w+\}", r"{\1}", path)
    return ExposedRoute(method, shown, credential, declared.limit, causes)


def _credentials(route: Any, above: tuple[Any, ...]) -> list[str]:
    found: dict[str, None] = {}
    calls = [*above]
    waiting = list(getattr(getattr(route, "dependant", None), "dependencies", ()))
    while waiting:
        dependant = waiting.pop()
        calls.append(dependant.call)
        waiting += dependant.dependencies
    for call in calls:
        credential = getattr(call, CREDENTIAL, None)
        if credential is not None:
            found[credential] = None
    return list(found)
