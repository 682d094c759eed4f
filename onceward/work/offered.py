"""The jobs and workflows that programs may enqueue or start over HTTP (`over_http=True`), and the schemas of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import ValidationError

from onceward.work.arguments import result_schema
from onceward.work.task import AppRegistry

OfferedKind = Literal["job", "workflow"]


@dataclass(frozen=True)
class Offered:
    """One job or workflow. `declared` is the value to pass to `enqueue` or `start_workflow`."""

    name: str
    kind: OfferedKind
    description: str
    args: Mapping[str, Any]
    """The JSON Schema of the arguments."""
    result: Mapping[str, Any] | None
    declared: Any = field(repr=False)


def offered_tasks(registry: AppRegistry) -> list[Offered]:
    """Return all of them, by name."""
    return sorted(_offered(registry), key=lambda each: (each.kind, each.name))


def _offered(registry: AppRegistry) -> Iterator[Offered]:
    for task in (*registry, *registry.external.values()):
        if task.over_http is None:
            continue
        declared = task.over_http()
        function = declared.function
        yield Offered(
            declared.name,
            "workflow" if task.kind == "workflow" else "job",
            (function.__doc__ or "").strip().partition("\n")[0],
            declared.model.model_json_schema(),
            result_schema(function),
            declared,
        )


def find_offered(registry: AppRegistry, name: str, kind: OfferedKind) -> Any:
    """Return the declared job or workflow, or None if there is none of this name that may be used over HTTP."""
    full = name if kind == "job" else f"workflow:{name}"
    task = registry.tasks.get(full) or registry.external.get(full)
    if task is None or task.over_http is None or (task.kind == "workflow") != (kind == "workflow"):
        return None
    return task.over_http()


def not_offered(registry: AppRegistry, name: str, kind: OfferedKind) -> str:
    """Return why a name is refused, with the nearest one. It does not say whether the app has such a job."""
    known = [each.name for each in offered_tasks(registry) if each.kind == kind]
    close = get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "GET /api/v1/tasks lists them"
    return f"there is no {kind} {name[:80]!r} that may be used over HTTP; {hint}"


def argument_errors(declared: Any, arguments: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    """Return the field and the reason of every argument that does not fit, such as `body.args.order`."""
    try:
        declared.model.model_validate(arguments)
    except ValidationError as error:
        return [
            (".".join([where, *map(str, each["loc"])]), each["msg"])
            for each in error.errors(include_url=False, include_input=False, include_context=False)
        ]
    try:
        declared.dump(dict(arguments))
    except (TypeError, ValueError) as error:
        return [(where, str(error))]
    return []
