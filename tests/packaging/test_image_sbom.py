"""The SBOMs that are put into the image have every installed package, with its version and licence."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "deploy" / "sbom.py"
STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""


def test_the_packages_of_python_are_complete_and_the_document_is_always_the_same() -> None:
    first, second = (
        subprocess.run([sys.executable, SCRIPT, "python"], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    )
    assert first == second
    made = json.loads(first)
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.5")
    found = {(each["name"], each["version"]) for each in made["components"]}
    assert {name for name, _ in found} == {
        each.metadata["Name"].lower().replace("_", "-").replace(".", "-") for each in distributions()
    }
    [ours] = [each for each in made["components"] if each["name"] == "onceward"]
    assert ours["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    assert ours["purl"] == f"pkg:pypi/onceward@{ours['version']}"


def test_packages_of_debian_that_are_installed_are_listed() -> None:
    spec = importlib.util.spec_from_file_location("image_sbom", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    sbom = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sbom)
    assert [each["purl"] for each in sbom.debian_packages(STATUS)] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64"
    ]
