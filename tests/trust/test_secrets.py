"""Sealed values open only where they were put, and only with a key we have."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.trust import NotFound, SecretBox, secrets
from onceward.trust.checks import check_secrets_can_be_opened
from onceward.trust.errors import BadSecretKey, Tampered, UnknownSecretKey
from onceward.trust.secrets import get_secret, key_id, put_secret, rotate
from tests.trust.conftest import Two

OLD, NEW = "o" * 40, "n" * 40
PLACE = {"table": "t", "row": "1", "column": "c"}


def test_a_value_opens_where_it_was_sealed() -> None:
    box = SecretBox([NEW])
    sealed = box.seal(b"whsec", **PLACE)
    assert box.open(sealed, **PLACE) == b"whsec"
    assert b"whsec" not in sealed
    assert box.seal(b"whsec", **PLACE) != sealed


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"table": "u", "row": "1", "column": "c"},
        {"table": "t", "row": "2", "column": "c"},
        {"table": "t", "row": "1", "column": "d"},
        {"table": "t1", "row": "", "column": "c"},
        {"table": "t", "row": "1c", "column": ""},
    ],
)
def test_a_value_moved_elsewhere_does_not_open(elsewhere: dict[str, str]) -> None:
    box = SecretBox([NEW])
    with pytest.raises(Tampered):
        box.open(box.seal(b"x", **PLACE), **elsewhere)


def test_a_changed_value_does_not_open() -> None:
    box = SecretBox([NEW])
    sealed = box.seal(b"secret", **PLACE)
    for position in range(len(sealed)):
        spoilt = bytearray(sealed)
        spoilt[position] ^= 1
        with pytest.raises((Tampered, UnknownSecretKey)):
            box.open(bytes(spoilt), **PLACE)
    for cut in (b"", sealed[:10], sealed[:32], sealed + b"x"):
        with pytest.raises(Tampered):
            box.open(cut, **PLACE)


def test_old_keys_still_open_and_the_first_seals() -> None:
    sealed = SecretBox([OLD]).seal(b"x", **PLACE)
    both = SecretBox([NEW, OLD])
    assert both.open(sealed, **PLACE) == b"x"
    assert key_id(both.seal(b"x", **PLACE)) == SecretBox([NEW]).current
    with pytest.raises(UnknownSecretKey, match="ONCEWARD_SECRET_KEY"):
        SecretBox([NEW]).open(sealed, **PLACE)


@pytest.mark.parametrize("keys", [[], ["short"], [NEW, ""]])
def test_a_weak_key_is_refused_without_being_shown(keys: list[str]) -> None:
    with pytest.raises(BadSecretKey) as refused:
        SecretBox(keys)
    assert "short" not in str(refused.value)


def test_the_data_directory_gets_one_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        boxes = list(threads.map(lambda _: SecretBox.from_directory(tmp_path / "data"), range(8)))
    assert len({box.current for box in boxes}) == 1
    [path] = (tmp_path / "data").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_secrets_swapped_between_rows_do_not_open(db: Database, two: Two) -> None:
    box = SecretBox([NEW])
    for organization, value in ((two.a, "a"), (two.b, "b")):
        async with db.transaction(organization=organization) as tx:
            await put_secret(tx, box, "stripe", value)
    await db.execute(
        "update onceward.secrets s set value = o.value from onceward.secrets o where o.secret_id <> s.secret_id"
    )
    async with db.transaction(organization=two.a) as tx:
        with pytest.raises(Tampered):
            await get_secret(tx, box, "stripe")
    async with db.acquire() as conn:
        assert len(await check_secrets_can_be_opened(box, FEATURES.sealed).run(conn)) == 2


async def test_rotation_seals_everything_under_the_first_key(db: Database, two: Two) -> None:
    async with db.transaction(organization=two.a) as tx:
        for number in range(5):
            await put_secret(tx, SecretBox([OLD]), f"s{number}", f"value {number}")
            await put_secret(tx, SecretBox([OLD]), f"s{number}", f"value {number}!")
    assert await rotate(db, SecretBox([NEW, OLD]), FEATURES.sealed, batch=2) == 5
    assert await rotate(db, SecretBox([NEW, OLD]), FEATURES.sealed) == 0
    async with db.transaction(organization=two.a) as tx:
        assert await get_secret(tx, SecretBox([NEW]), "s3") == "value 3!"
        with pytest.raises(NotFound):
            await get_secret(tx, SecretBox([NEW]), "other")


@pytest.mark.parametrize(("purpose", "length"), [(b"id", 4), (b"key", 32)])
def test_keys_are_derived_as_hkdf_does(purpose: bytes, length: int) -> None:
    reference = HKDF(algorithm=SHA256(), length=length, salt=None, info=b"onceward secrets v1 " + purpose)
    assert secrets._derive(NEW, purpose, length) == reference.derive(NEW.encode())  # pyright: ignore[reportPrivateUsage]
