"""The keys of stored secrets come from the settings, a file or a command. Every source fits the same box."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from onceward.settings import Settings
from onceward.trust.errors import BadSecretKey
from onceward.trust.key_sources import CommandKeys
from onceward.trust.secrets import SecretBox, secret_box
from onceward.trust.settings import TrustSettings

NEW, OLD = "the newest key of the tests is long enough", "the older key of the tests is long enough too"
PLACE = {"table": "t", "row": 1, "column": "c"}


def prints(text: str, *, status: int = 0) -> str:
    program = f"import sys; print({text!r}); print({NEW!r}, file=sys.stderr); sys.exit({status})"
    return shlex.join([sys.executable, "-c", program])


@pytest.mark.parametrize("source", ["settings", "file", "command"])
def test_each_source_opens_with_every_key_and_seals_with_the_first(source: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{NEW}\n{OLD}\n")
    trust = {
        "settings": TrustSettings(secret_key=SecretStr(f"{NEW}, {OLD}")),
        "file": TrustSettings(secret_key_file=str(tmp_path / "keys")),
        "command": TrustSettings(secret_key_command=prints(f"{NEW},{OLD}")),
    }[source]
    box = secret_box(Settings(data_dir=tmp_path / "data").using(trust))
    assert box.open(SecretBox([OLD]).seal(b"value", **PLACE), **PLACE) == b"value"
    assert SecretBox([NEW]).open(box.seal(b"value", **PLACE), **PLACE) == b"value"
    assert not (tmp_path / "data").exists()  # no key is created beside it


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (prints(NEW, status=3), "ended with status 3"),
        (prints(" "), "printed no key"),
        ("/nowhere/kms --print", "cannot be run: FileNotFoundError"),
        ("'unclosed", "cannot be run: ValueError"),
    ],
)
def test_a_command_that_fails_is_named_without_what_it_printed(command: str, reason: str) -> None:
    with pytest.raises(BadSecretKey, match=reason) as refused:
        CommandKeys(command).keys()
    assert NEW not in str(refused.value)


def test_a_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path).using(TrustSettings(secret_key_file=str(tmp_path / "keys")))
    with pytest.raises(BadSecretKey, match="keys cannot be read: FileNotFoundError"):
        secret_box(settings)
    (tmp_path / "keys").write_text("\n")
    with pytest.raises(BadSecretKey, match="contains no key"):
        secret_box(settings)


def test_two_sources_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="ONCEWARD_SECRET_KEY and ONCEWARD_SECRET_KEY_FILE exclude each other"):
        TrustSettings(secret_key=SecretStr(NEW), secret_key_file="keys")
