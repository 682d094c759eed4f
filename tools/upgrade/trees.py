"""The two versions: source trees from version control, wheels, or a made-up next release of the same source.

The old version is the tag 0.1.0, or the working tree if the clone has no such tag (CI clones without tags). If old and new
have the same schema, a next release is added to the copy of the new one: columns on hot tables, changed SQL functions, a new
version number, and a file that contracts.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]
APPS = Path(__file__).parent / "apps"
PREVIOUS = "0.1.0"
HERE = "the working tree"
HOT_TABLES = ("work", "jobs", "attempts", "webhook_events")


@dataclass(frozen=True, slots=True)
class Version:
    """A version that can be run: the folder with the package `onceward`, and the folder with the app."""

    name: str
    source: Path
    app: Path


@dataclass(frozen=True, slots=True)
class Versions:
    old: Version
    new: Version
    origin: str
    """How the two versions were obtained."""


def git(*arguments: str) -> bytes | None:
    """Return the output of git, or None if it fails or there is no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def commit_of(ref: str) -> str | None:
    found = git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    return found.decode().strip() if found else None


def prepare(folder: Path, *, old: str | None = None, new: str | None = None) -> Versions:
    """Write both trees below the folder. A version is a ref of git or the path of a wheel. Without them: the tag of the
    previous release, and the working tree."""
    previous = old or (PREVIOUS if commit_of(f"refs/tags/{PREVIOUS}") else None)
    source = ROOT if previous is None else _write(folder / "old", previous)
    target = _write(folder / "new", new)
    made_up = _sql(source) == _sql(target)
    if made_up:
        add_next_release(target)
    origin = (
        f"old: {previous or HERE}{'' if previous else f' (no tag {PREVIOUS} in this clone)'}; "
        f"new: {new or HERE}{', with a made-up next release' if made_up else ''}"
    )
    return Versions(Version("old", source, APPS / "v1"), Version("new", target, APPS / "v2"), origin)


def _write(folder: Path, ref: str | None) -> Path:
    if ref is None:
        shutil.copytree(
            ROOT / "onceward", folder / "onceward", ignore=shutil.ignore_patterns("__pycache__", "node_modules")
        )
        return folder
    if ref.endswith(".whl"):
        if not Path(ref).is_file():
            raise SystemExit(f"there is no wheel {ref}: `make release VERSION={PREVIOUS} ARGS=--dry-run` builds one")
        with zipfile.ZipFile(ref) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("onceward/")])
        return folder
    archive = git("archive", "--format=tar", ref, "onceward")
    if archive is None:
        raise SystemExit(
            f"git has no version {ref!r}: fetch its tag (git fetch --tags), or name another one with --old"
        )
    with tarfile.open(fileobj=BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def _sql(source: Path) -> dict[str, bytes]:
    engine = source / "onceward"
    return {str(path.relative_to(engine)): path.read_bytes() for path in sorted(engine.rglob("*.sql"))}


def add_next_release(source: Path) -> None:
    """Add a release to a tree that changes tables which every request and every job uses."""
    engine = source / "onceward"
    inbox = engine / "inbox" / "migrations"
    number = len(list(inbox.glob("*.sql"))) + 1
    columns = "".join(f"alter table onceward.{table} add column next_release text;\n" for table in HOT_TABLES)
    (inbox / f"{number:04d}_next.sql").write_text(f"-- onceward: expand\n{columns}")
    (inbox / f"{number + 1:04d}_index.sql").write_text(
        "-- onceward: expand\n-- onceward: no transaction\n"
        "create index concurrently if not exists next_release on onceward.webhook_events (next_release);\n"
    )
    drops = "".join(f"alter table onceward.{table} drop column next_release;\n" for table in HOT_TABLES)
    (inbox / f"{number + 2:04d}_contract.sql").write_text(f"-- onceward: contract after {number + 1:04d}\n{drops}")
    for package in ("work", "inbox"):
        for path in (engine / package / "functions").glob("*.sql"):
            path.write_text(path.read_text() + "\n-- The next release.\n")
    init = engine / "__init__.py"
    init.write_text(re.sub(r'__version__ = "[^"]+"', '__version__ = "0.2.0"', init.read_text()))
