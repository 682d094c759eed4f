"""What a release promised does not go or change unless the changelog says so.

`released_interface.txt` is what 0.1.0 promises, also while it is not released: `python tools/release.py record` wrote it.
"""

from __future__ import annotations

from pathlib import Path

from onceward import Onceward
from tools.public_interface import public_interface, unexplained

RELEASED = Path(__file__).with_name("released_interface.txt")
CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


EXAMPLES = {
    "python": "python onceward.Onceward.job",
    "setting": "setting ONCEWARD_POOL_MAX = 20",
    "command": "command onceward db dump --force",
    "metric": "metric onceward_queue_depth gauge {",
    "http": "http POST /api/v1/jobs",
    "sql": "sql function onceward.enqueue(",
    "sqlstate": "sqlstate OW",
}
"""The beginning of a line of each kind."""


async def test_nothing_that_was_released_goes_without_a_word_in_the_changelog(
    database_url: str, tmp_path: Path
) -> None:
    now = await public_interface(database_url, Onceward("interface"), tmp_path)
    released = RELEASED.read_text(encoding="utf-8").splitlines()
    for kind, example in EXAMPLES.items():
        assert [line for line in released if line.startswith(example)], kind
    broken = unexplained(released, now, CHANGELOG.read_text(encoding="utf-8"))
    assert broken == [], (
        "public things have gone or changed: say so in the section Unreleased of CHANGELOG.md (docs/upgrading.md)"
    )
    for kind, example in EXAMPLES.items():  # a planted break of each kind is found
        planted = next(line for line in released if line.startswith(example))
        assert unexplained(released, [line for line in now if line != planted], "") == [planted], kind


def test_a_changed_thing_is_explained_if_the_changelog_names_it() -> None:
    released = [
        "setting ONCEWARD_POOL_MIN = 2",
        "command onceward db dump --force",
        "python onceward.Onceward.job(name=)",
        "http GET /api/v1/x",
    ]
    now = ["python onceward.Onceward.job(name=, *more=)", "setting ONCEWARD_NEW = "]
    assert unexplained(released, now, "# Changelog\n\n## Unreleased\n\n- nothing\n") == sorted(released)
    text = "## Unreleased\n\n- `ONCEWARD_POOL_MIN` and `--force` are gone, `Onceward.job` has a parameter, `job`; `/api/v1/x` is gone.\n\n## 0.1.0\n"
    assert unexplained(released, now, text) == []
    assert unexplained(released, now, "## Unreleased\n\n## 0.1.0\n\n- `ONCEWARD_POOL_MIN`\n") == sorted(released)
