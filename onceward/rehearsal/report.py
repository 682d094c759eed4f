"""The summary of a series as text for the terminal, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from onceward.rehearsal.summary import Class, Group, OfHandler, Summary

ORDER: tuple[Class, ...] = ("same", "differs", "fails", "already done", "outside", "put off", "new")
TODAY = "Rehearsed against today's data: what was free or open when the work really ran may not be so now."
SLOWER = 1.5


def as_text(summary: Summary) -> Iterator[str]:
    """Yield the lines of the summary."""
    if summary.rehearsed == 0:
        yield "nothing to rehearse"
        return
    for of in summary:
        yield f"{of.task}: {_counts(of)}{_speed(of)}"
        for group in _groups(of):
            yield f"  {group.count} x {group.what} (for example {group.example}{_detail(group)})"
    yield f"{summary.rehearsed} rehearsed, nothing committed. {TODAY}{_unseen(summary)}"


def as_markdown(summary: Summary) -> str:
    """Return the summary as a Markdown document."""
    verdict = "no differences" if summary.is_clean else "**differences or failures**"
    parts = [
        f"## Rehearsal: {verdict}",
        "",
        f"{summary.rehearsed} events and jobs were rehearsed; nothing was committed. {TODAY}{_unseen(summary)}",
        "",
        "| handler | " + " | ".join(ORDER) + " |",
        "|---|" + "---:|" * len(ORDER),
    ]
    parts += [f"| `{of.task}` | " + " | ".join(str(of.counts.get(each, 0)) for each in ORDER) + " |" for of in summary]
    for of in summary:
        groups = _groups(of)
        if groups:
            parts += ["", f"### `{of.task}`", ""]
            parts += [
                f"- {group.count} × {group.what}, for example `{group.example}`{_detail(group)}" for group in groups
            ]
        if speed := _speed(of):
            parts += ["", f"`{of.task}` is{speed.removeprefix(',')}."]
    return "\n".join(parts) + "\n"


def _unseen(summary: Summary) -> str:
    """Say how much work found that it was done: what its handlers would do otherwise was not compared."""
    done = sum(of.counts.get("already done", 0) for of in summary)
    if not done:
        return ""
    share = round(100 * done / summary.rehearsed)
    return (
        f" {done} ({share} %) were already done: what their handlers do in the first run was not compared. Waiting"
        " work, or a copy of the database from before, shows that."
    )


def _counts(of: OfHandler) -> str:
    return ", ".join(f"{of.counts[each]:,} {each}" for each in ORDER if of.counts.get(each))


def _groups(of: OfHandler) -> list[Group]:
    return sorted([*of.failures.values(), *of.groups.values()], key=lambda each: -each.count)


def _detail(group: Group) -> str:
    return f": {group.detail}" if group.detail else ""


def _speed(of: OfHandler) -> str:
    slow = of.times_as_slow
    return f", {slow:.1f} times as slow as when it ran" if slow is not None and slow > SLOWER else ""
