"""Images in a folder and in a bucket: the same calls, the same results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.services import Files, NotSet
from tests.buckets import simulated_bucket
from tests.ticketing.office import Office


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with simulated_bucket(monkeypatch, "tickets") as address:
        yield f"{address}/images"


async def assert_keeps_files(files: Files) -> None:
    assert await files.get("a/b.png") is None
    await files.put("a/b.png", b"one", content_type="image/png")
    await files.put("a/b.png", b"two", content_type="image/png")
    assert await files.get("a/b.png") == b"two"
    await files.delete("a/b.png")
    assert await files.get("a/b.png") is None


async def test_a_folder_keeps_files(tmp_path: Path) -> None:
    await assert_keeps_files(Files.at(None, tmp_path))
    await assert_keeps_files(Files.at(f"file://{tmp_path}/elsewhere", tmp_path))


async def test_a_bucket_keeps_files(bucket: str, tmp_path: Path) -> None:
    await assert_keeps_files(Files.at(bucket, tmp_path))


def test_an_address_that_is_neither_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotSet, match="ONCEWARD_FILES_URL"):
        Files.at("ftp://somewhere", tmp_path)


async def test_qr_codes_of_a_sale_are_kept_in_the_bucket(office: Office, bucket: str, tmp_path: Path) -> None:
    office.app.services.use("files", Files.at(bucket, tmp_path))
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.pay(checkout)
    await office.drain()
    [ticket] = await office.tickets(checkout)
    assert ticket["qr_code_url"] is not None
    from onceward_apps.ticketing import documents

    image = await office.app.services.files.get(documents.qr_path(ticket))
    assert image is not None
    assert image.startswith(b"\x89PNG")
