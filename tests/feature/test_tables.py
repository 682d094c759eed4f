"""A package's SQL names its own tables and functions and those of packages that it builds on, never those of one above it."""

from __future__ import annotations

import re
from pathlib import Path

from onceward.db.functions import read_functions
from onceward.runtime import FEATURES

ROOT = Path(__file__).parents[2] / "onceward"
CREATED = re.compile(
    r"create\s+(?:unlogged\s+)?table\s+(?:if not exists\s+)?(onceward\.\w+|webhook\.\w+)", re.IGNORECASE
)
NAMED = re.compile(
    r"\b(?:from|join|into|update|table|delete from|references|truncate|regclass\('?)\s+(?:only\s+)?(onceward\.\w+)\b(?!\s+import|[.\w]+ import)"
)
CALLED = re.compile(r"\b((?:onceward|webhook|audit)\.\w+)\s*\(")
FACES = ("pages", "routes", "commands", "parts")
OF_EVERY_TRANSACTION = {"onceward.check_transaction", "onceward.refuse_join"}
"""Every transaction of `db` calls them. They read the settings that `db` makes, and name the roles that `trust` creates."""


def owners() -> dict[str, str]:
    """Table -> the feature whose migrations create it."""
    return {
        table.lower(): folder.owner
        for folder in FEATURES.migrations
        for path in folder.directory.glob("*.sql")
        for table in CREATED.findall(path.read_text(encoding="utf-8"))
    }


def function_owners() -> dict[str, str]:
    """Function -> the feature whose files create it."""
    return {
        f"{schema}.{name}": line.owner
        for line in FEATURES.migrations
        for file in read_functions(line)
        for schema, name in file.created
    }


def below(name: str) -> set[str]:
    """The features that this one builds on, directly or not."""
    by_name = {feature.name: feature for feature in FEATURES}
    found: set[str] = set()
    waiting = list(by_name[name].after)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += by_name[each].after
    return found


def test_no_package_names_a_table_of_one_that_it_does_not_build_on() -> None:
    owner_of = owners()
    assert len(owner_of) > 40
    wrong: list[str] = []
    for feature in FEATURES:
        allowed = {feature.name, *below(feature.name)}
        for path in sorted((ROOT / feature.name).rglob("*")):
            if path.suffix not in (".py", ".sql"):
                continue
            for table in set(NAMED.findall(path.read_text(encoding="utf-8"))):
                owner = owner_of.get(table)
                if owner is not None and owner not in allowed:
                    wrong.append(f"{path.relative_to(ROOT)} names {table}, which belongs to {owner}")
    assert wrong == []


def test_the_sql_of_function_files_is_read_too() -> None:
    paths = [path for feature in FEATURES for path in (ROOT / feature.name).rglob("functions/**/*.sql")]
    assert len(paths) > 100
    assert any("onceward.work" in NAMED.findall(path.read_text(encoding="utf-8")) for path in paths)


def test_no_package_calls_a_function_of_one_that_it_does_not_build_on() -> None:
    owner_of = function_owners()
    wrong: list[str] = []
    for feature in FEATURES:
        if feature.name == "doctor":  # it examines all others
            continue
        allowed = {feature.name, *below(feature.name)}
        for path in sorted((ROOT / feature.name).rglob("*")):
            if path.suffix not in (".py", ".sql"):
                continue
            # Faces stand above the frame of the dashboard.
            face = {"web"} if set(path.relative_to(ROOT).with_suffix("").parts) & set(FACES) else set[str]()
            for function in set(CALLED.findall(path.read_text(encoding="utf-8"))) - OF_EVERY_TRANSACTION:
                owner = owner_of.get(function)
                if owner is not None and owner not in allowed | face:
                    wrong.append(f"{path.relative_to(ROOT)} calls {function}, which belongs to {owner}")
    assert wrong == []
