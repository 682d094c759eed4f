"""`make release`: the version has one value, and a release is refused where something is missing. CI runs the rest as a dry run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

import onceward
from tools import release

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^[\w-]+/[\w./-]+@[0-9a-f]{40}$")


def test_every_file_that_names_the_version_has_the_same() -> None:
    release.check_version(onceward.__version__)


def test_another_version_is_refused_with_the_command_that_sets_it() -> None:
    with pytest.raises(release.ReleaseFailed, match=r"run `python tools/release.py set 9.9.9`"):
        release.check_version("9.9.9")


def test_setting_the_version_changes_every_file_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _ in release.VERSION_PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    release.set_version("9.9.9")
    release.check_version("9.9.9")


def test_actions_of_the_workflows_are_pinned_and_only_publishing_may_sign() -> None:
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for name, job in workflow["jobs"].items():
            used = [step["uses"] for step in job["steps"] if "uses" in step]
            assert [each for each in used if PINNED.match(each) is None] == [], path.name
            may_sign = "id-token" in job.get("permissions", {})
            assert may_sign == (path.name == "release.yml" and name in ("provenance", "publish")), (path.name, name)
