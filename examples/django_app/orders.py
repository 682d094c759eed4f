"""A model of Django and a view's work: the job is enqueued in the transaction of `transaction.atomic`."""

from typing import Any

from django.db import connection, models, transaction
from shop import pack

from onceward import BoundJob, enqueue_sql


class Order(models.Model):
    packed = models.BooleanField(default=False)

    class Meta:
        app_label = "shop"


def enqueue(call: BoundJob[Any]) -> int:
    """Enqueue a job in the current transaction. Returns the id of the job."""
    text, parameters = enqueue_sql(call, paramstyle="format")
    with connection.cursor() as cursor:
        cursor.execute(text, parameters)
        return cursor.fetchone()[0]


@transaction.atomic
def place_order(order: int) -> int:
    """Create the order and its job together. There is no `transaction.on_commit`, after which a crash loses the job."""
    Order.objects.create(id=order)
    return enqueue(pack.call(order=order))
