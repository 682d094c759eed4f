"""Build a release into `dist/`, check it as a stranger would meet it, and write what an auditor asks for.

    python tools/release.py build 0.1.0             # `make release VERSION=0.1.0`
    python tools/release.py build 0.1.0 --dry-run   # also from a tree with changes, and without a finished changelog
    python tools/release.py record                  # record what the version in the tree promises
    python tools/release.py set 0.2.0               # the same, and write the next version

`build` makes the wheel and the source archive of `onceward` and of `onceward-apps`, and the package of the browser client. It checks that

- the files that name the version agree, and the changelog has a section for it;
- a wheel contains what git tracks and nothing else, and the source archive builds the same wheel, byte for byte;
- the wheels install into an empty environment, whose packages fit together, and the command answers.

It writes `sbom.json` (CycloneDX, of that environment), `SHA256SUMS`, and prints sizes and times. The same commit always gives the same files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
VERSION_PLACES = (
    ("onceward/__init__.py", r'^__version__ = "(.+)"$'),
    ("pyproject.toml", r'^version = "(.+)"$'),
    ("apps/pyproject.toml", r'^version = "(.+)"$'),
    ("apps/pyproject.toml", r'^    "onceward==(.+)",$'),
    ("clients/js/package.json", r'^  "version": "(.+)",$'),
    ("clients/typescript/package.json", r'^  "version": "(.+)",$'),
    ("clients/python/pyproject.toml", r'^version = "(.+)"$'),
    ("clients/python/onceward_client/__init__.py", r'^__version__ = "(.+)"$'),
    ("deploy/helm/onceward/Chart.yaml", r"^version: (.+)$"),
    ("deploy/helm/onceward/Chart.yaml", r"^appVersion: (.+)$"),
)
NOT_IN_THE_WHEEL = {"onceward/cli/bench.py"}
WHEELS = {"onceward": ("onceward/", ""), "onceward_apps": ("apps/onceward_apps/", "apps/")}
"""The folder of each wheel in git, and what its names lack of that."""
SBOM_TOOL = "cyclonedx-bom>=7,<8"
TOOLS = {"uv": [sys.executable, "-m", "uv"]}


class ReleaseFailed(Exception):
    """The release must not be published. The message says what to repair."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build")
    build.add_argument("version")
    build.add_argument("--dry-run", action="store_true")
    verbs.add_parser("record")
    verbs.add_parser("set").add_argument("version")
    options = parser.parse_args()
    try:
        if options.verb == "build":
            build_release(options.version, dry_run=options.dry_run)
            return 0
        record_interface(ROOT)
        if options.verb == "set":
            set_version(options.version)
    except ReleaseFailed as problem:
        print(f"release failed: {problem}", file=sys.stderr)
        return 1
    return 0


def record_interface(folder: Path) -> None:
    """Write what the version in the tree promises, for the test that compares the next ones with it."""
    lines = run(sys.executable, "tools/public_interface.py")
    (folder / "tests" / "packaging" / "released_interface.txt").write_text(lines, encoding="utf-8")


def set_version(version: str) -> None:
    for name, pattern in VERSION_PLACES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        [match] = re.finditer(pattern, text, re.MULTILINE)
        path.write_text(text[: match.start(1)] + version + text[match.end(1) :], encoding="utf-8")
    for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'"onceward:[^"]+"', f'"onceward:{version}"', text), encoding="utf-8")


def build_release(version: str, *, dry_run: bool) -> None:
    check_version(version)
    if not dry_run:
        check_tree(version)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    os.environ["SOURCE_DATE_EPOCH"] = run("git", "log", "-1", "--format=%ct").strip()
    for project in (ROOT, ROOT / "apps"):
        build(project, "--sdist", to=DIST)
        build(project, "--wheel", to=DIST)
    for name in WHEELS:
        check_wheel(name, version)
        check_that_the_archive_builds_the_wheel(name, version)
    for client in ("js", "typescript"):
        run("npm", "pack", "--silent", "--pack-destination", str(DIST), cwd=ROOT / "clients" / client)
    for kind in ("--sdist", "--wheel"):
        build(ROOT / "clients" / "python", kind, to=DIST)
    with tempfile.TemporaryDirectory() as folder:
        try_installed(Path(folder), version, dry_run=dry_run)
    (DIST / ".gitignore").unlink(missing_ok=True)  # uv writes one
    lines = [f"{sha256(path)}  {path.name}" for path in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  dist/{path.name}")


def check_version(version: str) -> None:
    for name, pattern in VERSION_PLACES:
        found = re.findall(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
        if found != [version]:
            raise ReleaseFailed(
                f"{name} has version {found}, not {version}: run `python tools/release.py set {version}`"
            )


def check_tree(version: str) -> None:
    if run("git", "status", "--porcelain").strip():
        raise ReleaseFailed("the tree has changes that are not committed")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if re.search(rf"^## {re.escape(version)} - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE) is None:
        raise ReleaseFailed(f"CHANGELOG.md has no section `## {version} - YYYY-MM-DD`")


def build(project: Path, kind: str, *, to: Path) -> None:
    run(
        *TOOLS["uv"],
        "build",
        kind,
        "--quiet",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        str(to),
        str(project),
    )


def check_wheel(name: str, version: str) -> None:
    """Check that the wheel contains the files that git tracks, and its metadata."""
    folder, prefix = WHEELS[name]
    tracked = {each.removeprefix(prefix) for each in run("git", "ls-files", folder).splitlines()}
    if name == "onceward":
        client = run("git", "ls-files", "clients/js").splitlines()
        tracked = {*tracked, *(each.replace("clients/js", "onceward/live/js", 1) for each in client)} - NOT_IN_THE_WHEEL
    with zipfile.ZipFile(wheel_of(name, version, DIST)) as wheel:
        names = {each for each in wheel.namelist() if ".dist-info/" not in each}
        [metadata] = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
        text = wheel.read(metadata).decode()
    if names != tracked:
        wrong = ", ".join(sorted(names ^ tracked)[:5])
        raise ReleaseFailed(f"the wheel of {name} does not contain what git tracks: {wrong}")
    for line in (f"Version: {version}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        if line not in text.splitlines():
            raise ReleaseFailed(f"the metadata of {name} lack `{line}`")


def check_that_the_archive_builds_the_wheel(name: str, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(DIST / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        build(Path(folder) / f"{name}-{version}", "--wheel", to=Path(folder) / "out")
        again = wheel_of(name, version, Path(folder) / "out")
        if sha256(again) != sha256(wheel_of(name, version, DIST)):
            raise ReleaseFailed(f"the source archive of {name} builds another wheel")


def try_installed(folder: Path, version: str, *, dry_run: bool) -> None:
    """Install the wheels into an empty environment, ask the command, measure, and write the bill of materials."""
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    wheels = [str(wheel_of(name, version, DIST)) for name in WHEELS]
    for wanted in (wheels[:1], wheels):
        began = time.monotonic()
        run(*TOOLS["uv"], "pip", "install", "--quiet", "--python", str(python), *wanted)
        megabytes = sum(path.stat().st_size for path in (folder / "venv").rglob("*") if path.is_file()) / 1e6
        print(
            f"installed {' and '.join(Path(each).name for each in wanted)} in {time.monotonic() - began:.1f} s: "
            f"{megabytes:.0f} MB"
        )
        if wanted == wheels[:1]:
            report_import_time(python, folder)
    run(*TOOLS["uv"], "pip", "check", "--quiet", "--python", str(python))
    answer = run(str(python), "-m", "onceward", "--version", cwd=folder)
    if not answer.startswith(f"onceward {version} "):
        raise ReleaseFailed(f"`onceward --version` answers {answer!r}")
    try:
        write_bill_of_materials(python)
    except ReleaseFailed as problem:
        if not dry_run:
            raise
        print(f"sbom.json is not written, which a release needs: {str(problem)[:200]}")


def write_bill_of_materials(python: Path) -> None:
    """Write which packages the environment has, as CycloneDX. The tool comes from the package index."""
    sbom = DIST / "sbom.json"
    options = ("--output-reproducible", "--of", "JSON", "-o", str(sbom))
    run(
        *TOOLS["uv"],
        "tool",
        "run",
        "--quiet",
        "--from",
        SBOM_TOOL,
        "cyclonedx-py",
        "environment",
        *options,
        str(python),
    )
    components = {each["name"] for each in json.loads(sbom.read_text(encoding="utf-8"))["components"]}
    if not {"onceward", "onceward-apps", "asyncpg"} <= components:
        raise ReleaseFailed("sbom.json lacks packages that are installed")


def report_import_time(python: Path, folder: Path) -> None:
    times: list[float] = []
    for _ in range(5):
        began = time.monotonic()
        run(str(python), "-c", "import onceward", cwd=folder)
        times.append(time.monotonic() - began)
    print(f"`import onceward` in a new process: {times[0]:.2f} s at first, then {statistics.median(times[1:]):.2f} s")


def wheel_of(name: str, version: str, folder: Path) -> Path:
    return folder / f"{name}-{version}-py3-none-any.whl"


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseFailed(f"{' '.join(command[:6])} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
