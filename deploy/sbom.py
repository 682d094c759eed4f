"""Print what an image contains, as a CycloneDX document: `sbom.py python` or `sbom.py debian`. Needs nothing but
Python.

The same image always gives the same document: it has no time and no serial number.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

DPKG = Path("/var/lib/dpkg/status")


def python_packages() -> Iterator[dict[str, Any]]:
    """Yield the packages that this interpreter can import."""
    for each in distributions():
        name = re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower()
        yield component(name, each.version, f"pkg:pypi/{name}@{quote(each.version)}", licence_of(each))


def licence_of(package: Distribution) -> str | None:
    """Return what the package says about its licence, if that is a short name and not a whole text."""
    named: list[str] = [
        *package.metadata.get_all("License-Expression", []),
        *package.metadata.get_all("License", []),
        *(each.rpartition(" :: ")[2] for each in package.metadata.get_all("Classifier", []) if "License ::" in each),
    ]
    return next((each for each in named if 0 < len(each) < 80 and "\n" not in each), None)


def debian_packages(status: str) -> Iterator[dict[str, Any]]:
    """Yield the installed packages of Debian, from the text of dpkg's status file."""
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Architecture|Status): (.+)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}"
            yield component(name, version, purl, None)


def component(name: str, version: str, purl: str, licence: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licence is not None:
        found["licenses"] = [{"license": {"name": licence}}]
    return found


def document(components: Iterator[dict[str, Any]]) -> str:
    ordered = sorted({each["purl"]: each for each in components}.values(), key=lambda each: each["purl"])
    return json.dumps({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": ordered}, indent=1)


def main() -> int:
    match sys.argv[1:]:
        case ["python"]:
            print(document(python_packages()))
        case ["debian"]:
            print(document(debian_packages(DPKG.read_text(encoding="utf-8") if DPKG.exists() else "")))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
