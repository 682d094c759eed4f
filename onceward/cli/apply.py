"""`apply`: bring sources, endpoints, event types, pauses, weights and roles to what a file says."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, say
from onceward.cli.session import features_here, opened_database, run, settings_here

if TYPE_CHECKING:
    from onceward.configuration import Applying, Change, Section
    from onceward.db import Database

ACTOR = "operator:apply"
MOST_BYTES = 4 << 20
LOCK = 727281
"""Two runs of `apply` at the same time wait for each other."""


def register(cli: typer.Typer) -> None:
    cli.command("apply")(apply)


def apply(
    file: Annotated[Path, typer.Option("--file", "-f", help="The file: YAML, TOML or JSON.")],
    plan: Annotated[
        bool, typer.Option("--plan", help="Show what would change, change nothing. Exits with 1 if something would.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also delete what an earlier apply created and the file no longer has.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring sources, endpoints, event types, pauses, weights and roles to what a file says (docs/apply.md).

    A second run changes nothing. Secrets are references to environment variables or files. What the file does not
    name is left alone.
    """
    outcome = run(apply_content(read_file(file), file.absolute().parent, plan=plan, prune=prune))
    if as_json:
        document(outcome.as_json())
    else:
        for line in outcome.lines(plan=plan):
            say(line)
    if outcome.failed is not None:
        raise CommandFailed(f"{outcome.failed}; the changes above are done, and the next run goes on", Exit.FAILED)
    if plan and outcome.changes:
        raise typer.Exit(Exit.FAILED)


@dataclass(slots=True)
class Outcome:
    """The changes with their sections; `failed` says why a run stopped after these."""

    changes: list[tuple[str, Change]]
    unlisted: list[tuple[str, str]]
    """What an earlier run created and the file no longer has, without --prune."""
    failed: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "changes": [
                {
                    "section": section,
                    "action": change.action,
                    "name": change.name,
                    "fields": {name: asdict(each) for name, each in change.fields.items()},
                }
                for section, change in self.changes
            ],
            "unlisted": [{"section": section, "name": name} for section, name in self.unlisted],
        }

    def lines(self, *, plan: bool) -> Iterator[str]:
        signs = {"create": "+", "change": "~", "delete": "-"}
        for section, change in self.changes:
            yield f"{signs[change.action]} {section}.{change.name}"
            for name, each in change.fields.items():
                before = "" if change.action == "create" else f"{_shown(each.before)} -> "
                yield f"    {name}: {before}{_shown(each.after)}"
        for section, name in self.unlisted:
            yield f"? {section}.{name} is not in the file any more: --prune deletes it"
        if not self.changes:
            yield "nothing to change"
        elif plan:
            yield f"{len(self.changes)} to change; nothing was changed"
        else:
            yield f"{len(self.changes)} changed"


async def apply_content(content: dict[str, Any], folder: Path, *, plan: bool, prune: bool) -> Outcome:
    """Plan the changes and, unless only a plan is asked for, make them. `folder` is that of relative file names."""
    from onceward.configuration import FOLDER, Applying, ConfigurationRefused

    FOLDER.set(folder)
    sections: list[Section] = [each for declared in features_here().load("configuration") for each in declared]
    entries = read_entries(content, sections)
    async with opened_database() as db, AsyncExitStack() as stack:
        if not plan:
            held = await stack.enter_async_context(db.transaction(role="engine"))
            await held.execute("select pg_advisory_xact_lock($1)", LOCK)
        applying = Applying(db, settings_here(), ACTOR, await _known(db), frozenset(content.get("organizations") or ()))
        # All of it is planned first: a mistake in the last section must be found before the first one is changed.
        planned = await _planned(applying, sections, entries)
        gone = [key for key in applying.ids if key[0] in entries and key[1] not in entries[key[0]]]
        deletions = await _deletions(applying, sections, gone)
        unlisted = [(section, change.name) for section, change in deletions]
        if plan:
            return Outcome(planned + (deletions if prune else []), [] if prune else unlisted)
        done = Outcome([], [] if prune else unlisted)
        try:
            for section in sections:
                for change in await section.plan(applying, entries.get(section.name, {})):
                    id = await change.run()
                    done.changes.append((section.name, change))
                    if id is not None:
                        await _remember(db, section.name, change.name, id)
            for section, change in deletions if prune else []:
                await change.run()
                await _forget(db, section, change.name)
                done.changes.append((section, change))
        except ConfigurationRefused as error:
            done.failed = str(error)
        return done


async def _planned(
    applying: Applying, sections: list[Section], entries: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, Change]]:
    return [
        (section.name, change)
        for section in sections
        for change in await section.plan(applying, entries.get(section.name, {}))
    ]


async def _deletions(
    applying: Applying, sections: list[Section], gone: list[tuple[str, str]]
) -> list[tuple[str, Change]]:
    by_name = {each.name: each for each in sections}
    found: list[tuple[str, Change]] = []
    for section, name in gone:
        change = await by_name[section].delete(applying, name, applying.ids[section, name])
        if change is not None:
            found.append((section, change))
    return found


async def _known(db: Database) -> dict[tuple[str, str], str]:
    rows = await db.fetch("select section, name, entity_id from onceward.configured order by 1, 2")
    return {(row["section"], row["name"]): row["entity_id"] for row in rows}


async def _remember(db: Database, section: str, name: str, id: str) -> None:
    async with db.transaction(role="engine") as tx:
        await tx.execute(
            "insert into onceward.configured (section, name, entity_id) values ($1, $2, $3)"
            " on conflict (section, name) do update set entity_id = excluded.entity_id",
            section,
            name,
            id,
        )


async def _forget(db: Database, section: str, name: str) -> None:
    async with db.transaction(role="engine") as tx:
        await tx.execute("delete from onceward.configured where section = $1 and name = $2", section, name)


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a file in YAML, TOML or JSON. Raises `CommandFailed`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CommandFailed(f"{path} has more than {MOST_BYTES} bytes", Exit.USAGE)
        text = path.read_text(encoding="utf-8")
        match path.suffix.lower():
            case ".json":
                content = json.loads(text)
            case ".toml":
                content = tomllib.loads(text)
            case _:
                content = _read_yaml(text)
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{path} cannot be read: {' '.join(str(error).split())}", Exit.USAGE) from None
    if not isinstance(content, dict):
        raise CommandFailed(f"{path} must have sections, such as `sources:`", Exit.USAGE)
    return cast("dict[str, Any]", content)


def _read_yaml(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def read_entries(content: Mapping[str, Any], sections: list[Section]) -> dict[str, dict[str, Any]]:
    """Return the checked entries of each section. Raises `ConfigurationRefused`, which names every wrong field."""
    from pydantic import ValidationError

    from onceward.configuration import ConfigurationRefused

    known = {each.name: each for each in sections}
    wrong: list[str] = []
    read: dict[str, dict[str, Any]] = {}
    for name, entries in content.items():
        if name not in known:
            close = get_close_matches(str(name), list(known), n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            wrong.append(f"{name}: there is no such section; {hint}")
            continue
        if not isinstance(entries or {}, dict):
            wrong.append(f"{name}: must have one entry for each name")
            continue
        read[name] = {}
        for key, value in cast("dict[Any, Any]", entries or {}).items():
            try:
                read[name][str(key)] = known[name].entry.model_validate({} if value is None else value)
            except ValidationError as error:
                wrong += [
                    ".".join([name, str(key), *map(str, each["loc"])])
                    + f": {each['msg'].removeprefix('Value error, ')}"
                    for each in error.errors(include_url=False, include_input=False, include_context=False)
                ]
    if wrong:
        raise ConfigurationRefused("\n".join(wrong))
    return read


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
