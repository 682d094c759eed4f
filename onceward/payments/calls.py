"""Reach the payment service of an account, and turn what it did not answer into the outcome of a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_never

from onceward.services import NotSet, Services
from onceward.services.outcome import Refused, Throttled, Unknown, Unreachable
from onceward.work import Permanent, Retry, Snooze

from .declarations import is_by_hand, service_class
from .errors import PaymentError
from .service import Failure, PaymentService

Row = Any
ACCOUNT_WAIT_S = 900.0
"""How long a call waits for an operator to repair the credentials."""


class AccountRefused(Snooze):
    """The call waits for an operator: the credentials are missing, or the service refuses them."""

    def __init__(self, reason: str) -> None:
        super().__init__(ACCOUNT_WAIT_S, reason)


async def service_for(services: Services, row: Row) -> PaymentService:
    """Return the service of a payment's account. `row` is a row of `store.GET`, or of an account with
    `organization_id`.

    The credentials are those of the account's owner: an organization, or the installation.
    """
    name, owner = row["service"], row["account_owner"]
    connected = row["connected_account"]
    if is_by_hand(name):
        return service_class(name).connect(None)
    if owner is None and connected is None and await services.has_own_account(name, row["organization_id"]):
        raise PaymentError(
            f"organization {row['organization_id']} has an account of its own at {name}, but its payments use the"
            f" installation's account {row['account_name']!r}: add an account {row['account_name']!r} of the "
            f"organization"
        )
    client = await services.get(name, None if connected is not None else owner)
    return service_class(name).connect(client, connected_account=connected)


async def service_of_job(services: Services, row: Row) -> PaymentService:
    """Return the service for a job, which waits while the account is not configured."""
    try:
        return await service_for(services, row)
    except (NotSet, PaymentError) as error:
        raise AccountRefused(str(error)) from error


def again(failure: Failure) -> Exception:
    """Return the error that makes a job repeat a call under the same idempotency key."""
    match failure:
        case Refused(reason, account=True):
            return AccountRefused(f"the payment service refuses our credentials: {reason}")
        case Refused(reason, permanent=True):
            return Permanent(f"the payment service refuses the request: {reason}")
        case Refused(reason, retry_after_s=after):
            return Retry(reason, after=after)
        case Throttled(after):
            return Retry("the payment service limits our request rate", after=after)
        case Unreachable(reason) | Unknown(reason):
            return Retry(reason)
        case _:
            assert_never(failure)


def ask_again_after(asks: int) -> timedelta:
    """Return how long to wait before the service is asked again: minutes at first, three days in the end."""
    waits = (10, 30, 120, 360, 1440, 1440, 2880)
    return timedelta(minutes=waits[asks] if asks < len(waits) else 4320)
