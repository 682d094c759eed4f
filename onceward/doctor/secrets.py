"""The check of `onceward doctor` about encrypted values: do the keys of this machine fit them?"""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.doctor.finding import Finding
from onceward.feature import SealedColumn
from onceward.settings import Settings
from onceward.trust import SecretBox, SecretError
from onceward.trust.secrets import KEY_FILE, KEY_ID_BYTES, missing, secret_box
from onceward.trust.settings import TrustSettings


async def check_secrets(conn: Connection, settings: Settings, columns: Sequence[SealedColumn]) -> Finding:
    """Compare the key ids of all encrypted values with the keys of this machine. Decrypts nothing and creates no
    key."""
    try:
        box = _existing_keys(settings)
    except SecretError as error:
        return Finding("secrets", "fail", str(error), "correct ONCEWARD_SECRET_KEY")
    absent = await missing(conn, columns)  # columns of pending migrations, which another check names
    unknown: dict[str, int] = {}
    older = total = 0
    for place in columns:
        if place in absent:
            continue
        for row in await conn.fetch(
            f"select substr({place.column}, 2, {KEY_ID_BYTES}) as key, count(*) as number from {place.table}"
            f" where {place.column} is not null group by 1"
        ):
            total += row["number"]
            if box is None or not box.knows(row["key"]):
                unknown[str(place)] = unknown.get(str(place), 0) + row["number"]
            elif row["key"] != box.current:
                older += row["number"]
    if unknown:
        text = ", ".join(f"{number} in {place}" for place, number in unknown.items())
        remedy = "set the same ONCEWARD_SECRET_KEY on every node, with the old key after the new one (`new,old`)"
        return Finding("secrets", "fail", f"values are encrypted with a key that this machine lacks: {text}", remedy)
    if older:
        remedy = "run `onceward secrets rotate` before you remove an old key"
        return Finding("secrets", "ok", f"the keys fit all {total} encrypted values; {older} use an older key", remedy)
    return Finding("secrets", "ok", f"the keys fit all {total} encrypted values")


def _existing_keys(settings: Settings) -> SecretBox | None:
    if settings.of(TrustSettings).has_secret_key or (settings.data_dir / KEY_FILE).exists():
        return secret_box(settings)
    return None
