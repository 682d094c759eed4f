"""Tests in Django's own style: `python -m django test --pattern django_tests.py`."""

from django.db import connection
from django.test import TestCase
from orders import enqueue
from shop import pack


class Jobs(TestCase):
    def test_a_view_enqueues_in_the_transaction_of_the_test(self) -> None:
        job = enqueue(pack.call(order=7))
        with connection.cursor() as cursor:
            cursor.execute("select task from onceward.jobs where id = %s", [job])
            assert cursor.fetchone() == ("pack",)
