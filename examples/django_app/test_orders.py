"""Django's ORM and a job in one transaction."""

import asyncio
import os

import pytest

from onceward import Engine
from onceward.testing import drain


def use_django(url: str) -> None:
    """Configure Django for the database of this test."""
    os.environ |= {"ONCEWARD_DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "settings"}
    import django

    django.setup()


async def test_a_job_exists_if_and_only_if_its_order_exists(
    onceward_engine: Engine, onceward_database_url: str
) -> None:
    use_django(onceward_database_url)
    from django.db import connection, transaction
    from orders import Order, place_order

    def in_django() -> int:
        with connection.schema_editor() as editor:
            editor.create_model(Order)
            editor.execute("grant select, update on shop_order to onceward_app")
        job = place_order(7)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            place_order(8)
            raise ZeroDivisionError
        connection.close()
        return job

    job = await asyncio.to_thread(in_django)
    db = onceward_engine.db
    assert [row["id"] for row in await db.fetch("select id from onceward.jobs")] == [job]

    await drain(onceward_engine)
    assert [tuple(row) for row in await db.fetch("select id, packed from shop_order")] == [(7, True)]
