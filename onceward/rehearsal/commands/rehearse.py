"""`rehearse`: show what handlers would do to recorded work, without doing it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onceward.cli.app_loader import AppOption, load_app
from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.moments import moment
from onceward.cli.rendering import JsonOption, document, say


def rehearse(
    refs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Ids of events or jobs, a provider's event id, or a unique key."),
    ] = None,
    dead_letters: Annotated[bool, typer.Option("--dead-letters", help="The newest dead letters.")] = False,
    since: Annotated[
        str | None,
        typer.Option("--since", help="Events and jobs that arrived since 30m, 12h or 7d ago, or an ISO time."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="Only this type of event, or job of this name; can be repeated."),
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, max=100_000, help="At most this many.")] = 500,
    app: AppOption = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Also write the report as Markdown to this file.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against", help="Compare with another version: the folder of its code with a .venv, or its Python."
        ),
    ] = None,
    against_app: Annotated[
        str | None, typer.Option("--against-app", help="The app of the other version, if it has another name.")
    ] = None,
    simulators: Annotated[
        bool, typer.Option("--simulators", help="Let the configured simulators answer calls to their services.")
    ] = False,
    pipe: Annotated[bool, typer.Option("--pipe", hidden=True)] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what handlers would do to recorded work. Nothing is committed, sent or called.

    Exit code 1: a handler fails, or causes something else than it really did, or than the other version does.
    """
    from onceward.rehearsal.commands.selection import WITH_TREE, Selection, rehearse_selection, run_refusing, serve
    from onceward.rehearsal.commands.tree import print_tree
    from onceward.rehearsal.other_version import OtherVersion
    from onceward.rehearsal.report import as_markdown, as_text

    if not pipe and not refs and not dead_letters and since is None:
        raise CommandFailed("rehearse needs ids of events or jobs, --dead-letters or --since 24h", Exit.USAGE)
    loaded = load_app(app)
    selection = Selection(tuple(refs or ()), dead_letters, moment(since), tuple(types or ()), sample)
    if pipe:
        run_refusing(serve(loaded, simulators=simulators))
        return
    other = None
    if against is not None:
        name = against_app or app
        assert name is not None  # `load_app` has refused None
        other = OtherVersion(against, name, ("--simulators",) if simulators else ())
    done = run_refusing(rehearse_selection(loaded, selection, other=other, simulators=simulators))
    if as_json:
        document(done.as_json())
    else:
        for one in done.shown if done.summary.rehearsed <= WITH_TREE else ():
            print_tree(one)
        for text in as_text(done.summary):
            say(text)
    if markdown is not None:
        markdown.write_text(as_markdown(done.summary), encoding="utf-8")
    if done.stopped is not None:
        raise CommandFailed(done.stopped, Exit.INTERRUPTED if done.is_interrupted else Exit.FAILED)
    if not done.summary.is_clean:
        raise typer.Exit(Exit.FAILED)
