"""Render the Helm chart into deploy/kubernetes, one file for each size, for those who use kubectl alone.

    python tools/chart.py          # `make chart`

Uses the program `helm`, or the package helm-python-sdk, which is Helm's own code as a library (`pip install helm-python-sdk`).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "helm" / "onceward"
RENDERED = ROOT / "deploy" / "kubernetes"
SIZES = ("small", "medium", "large")
FOR_KUBECTL = {"migrate": {"afterwards": False}}
"""kubectl knows no order of jobs: who applies the file runs the migration again."""
HEADER = (
    "# The chart in deploy/helm with values-{size}.yaml and the release name `onceward`. `make chart` writes "
    "this file.\n"
)


def can_render() -> bool:
    return shutil.which("helm") is not None or importlib.util.find_spec("helm_python") is not None


def render(*files: Path, values: dict[str, Any] | None = None) -> str:
    """Return the manifests with the values of these files, and then these values, as one text of YAML."""
    if shutil.which("helm") is not None:
        command = ["helm", "template", "onceward", str(CHART), *(word for file in files for word in ("-f", str(file)))]
        given = yaml.safe_dump(values or {})
        done = subprocess.run([*command, "-f", "-"], input=given, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        return _without_origins(done.stdout)
    from helm_python.chart import Chart  # pyright: ignore[reportMissingImports]

    merged: dict[str, Any] = {}
    for each in (*(yaml.safe_load(file.read_text("utf-8")) for file in files), values or {}):
        merged = _merged(merged, each)
    with Chart.load(CHART) as chart:
        found: dict[str, str] = chart.render(values=merged, name="onceward")
    return _without_origins("\n---\n".join(text for name, text in sorted(found.items()) if name.endswith(".yaml")))


def lint(*files: Path) -> str:
    """Return what `helm lint --strict` has to say; empty if nothing."""
    if shutil.which("helm") is not None:
        command = ["helm", "lint", "--strict", str(CHART), *(word for file in files for word in ("-f", str(file)))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr
    from helm_python.chart import lint as helm_lint  # pyright: ignore[reportMissingImports]

    merged: dict[str, Any] = {}
    for file in files:
        merged = _merged(merged, yaml.safe_load(file.read_text("utf-8")))
    found: Any = helm_lint(CHART, values=merged, strict=True)
    problems = [each["error"] for each in found["messages"] if each["severity"] > 1]  # 1 is advice: an icon
    return "\n".join([*problems, *map(str, found["errors"])])


def documents(text: str) -> list[dict[str, Any]]:
    """Return the manifests in an order that does not depend on the renderer."""
    found = [each for each in yaml.safe_load_all(text) if each is not None]
    return sorted(found, key=lambda each: (each["kind"], each["metadata"]["name"]))


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        mine = merged.get(key)
        merged[key] = _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged


def _without_origins(text: str) -> str:
    """Drop the lines that name templates, the blank ones, and separators with nothing between them."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("# Source:")]
    parts = [part.strip("\n") for part in "\n".join(lines).split("\n---\n")]
    return "\n---\n".join(part.removeprefix("---\n") for part in parts if part.strip("-\n")) + "\n"


def main() -> int:
    if not can_render():
        print("install Helm (https://helm.sh), or `pip install helm-python-sdk`", file=sys.stderr)
        return 1
    RENDERED.mkdir(exist_ok=True)
    for size in SIZES:
        text = HEADER.format(size=size) + render(CHART / f"values-{size}.yaml", values=FOR_KUBECTL)
        (RENDERED / f"{size}.yaml").write_text(text, encoding="utf-8")
        print(f"deploy/kubernetes/{size}.yaml: {len(documents(text))} objects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
