"""Start a checkout: hold a place, then open a payment page that ends with the hold.

The place is held in the first transaction and the page opened after its commit, so a crash in between costs a hold that
expires by itself. A person has one started checkout for a cohort: a repeated request, also at the same moment, opens the
page of that checkout under the same idempotency key, and so gets the same page. A checkout for the other way to pay
replaces the started one and closes its page. While a payment takes days, such as a bank debit, no checkout starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID, uuid4

from onceward import Engine, Tx
from onceward.capacity import CapacityRefused, Want, claim, extend, release
from onceward.integrations.stripe import to_stripe
from onceward.services import Accepted, NotSet, ServiceAnswer
from onceward_apps.learning import links, payment_pages, waitlist
from onceward_apps.learning.app import app, settings
from onceward_apps.learning.enrollments import enrol_free
from onceward_apps.learning.errors import (
    AlreadyEnrolled,
    CohortFull,
    NotEnrollable,
    NotFound,
    PaymentPending,
    PaymentUnavailable,
)
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.model import APP, is_enrollable, pool_key
from onceward_apps.learning.store import cohorts, enrollments, payments, pending_payments, users
from onceward_apps.learning.store import waitlist as invites

Kind = Literal["enrollment", "extension", "subscription"]
SLACK = timedelta(minutes=1)
"""Stripe refuses a page that lives less than 30 minutes; the request itself takes a moment."""


@dataclass(frozen=True, slots=True)
class StartedCheckout:
    """Where to send the browser. `enrollment_id` is set if there was nothing to pay."""

    url: str
    checkout_id: UUID | None = None
    enrollment_id: UUID | None = None


async def start_checkout(
    engine: Engine,
    organization: UUID,
    *,
    cohort_id: UUID,
    user_id: UUID,
    invite_token: str | None = None,
    instalments: bool = False,
    is_known: bool = True,
) -> StartedCheckout:
    """Hold a place for the person and return the payment page. A free cohort enrols at once.

    `is_known` says whether the caller has proven to be this person. Anybody else gets a payment page in any case: an answer
    that depends on the person would tell a stranger who is enrolled. A second payment is refunded when it arrives.

    With an invite, the place of the invite is used and held until the page ends. With `instalments`, the page starts a
    subscription of monthly payments, if the cohort offers them.
    """
    async with engine.transaction(organization=organization) as tx:
        cohort, user = await _allowed(tx, cohort_id, user_id, is_known=is_known)
        if cohort["price"] == 0:
            await _refuse_while_paying(tx, user_id, cohort, "enrollment")
            enrollment_id = await enrol_free(tx, cohort_id, user_id)
            return StartedCheckout(links.home(enrollment_id), enrollment_id=enrollment_id)
        if instalments and cohort["instalment_count"] == 0:
            raise NotEnrollable(f"{cohort['name']} cannot be paid in instalments")
        kind: Kind = "subscription" if instalments else "enrollment"
        started = await _started(tx, user_id, cohort, kind, is_known=is_known)
        checkout = started or await _hold(tx, cohort, user, invite_token, kind)
    return await _open_page(
        engine, organization, checkout, cohort, user, cancel_url=links.cohort(cohort_id), is_new=started is None
    )


async def start_extension(engine: Engine, organization: UUID, *, enrollment_id: UUID) -> StartedCheckout:
    """Return the payment page for an extension of the access."""
    async with engine.transaction(organization=organization) as tx:
        enrollment = await enrollments.lock(tx, enrollment_id)
        if (
            enrollment is None
            or enrollment["erased_at"] is not None
            or enrollment["status"] not in ("ACTIVE", "EXPIRED")
        ):
            raise NotFound(f"there is no enrolment {enrollment_id} whose access can be extended")
        cohort = await cohorts.find(tx, enrollment["cohort_id"])
        user = await users.find(tx, enrollment["user_id"])
        if cohort["extension_price"] == 0:
            raise NotEnrollable(f"{cohort['name']} offers no extension of access")
        started = await _started(tx, user["id"], cohort, "extension")
        checkout = started or await payments.add_checkout(
            tx,
            checkout_id=uuid4(),
            kind="extension",
            user_id=user["id"],
            cohort_id=cohort["id"],
            enrollment_id=enrollment_id,
            invite_id=None,
            claim_id=None,
            amount=cohort["extension_price"],
            currency=cohort["currency"],
            expires_at=await _page_end(tx),
            page_lifetime=_page_lifetime(),
        )
    return await _open_page(
        engine, organization, checkout, cohort, user, cancel_url=links.home(enrollment_id), is_new=started is None
    )


async def _allowed(tx: Tx, cohort_id: UUID, user_id: UUID, *, is_known: bool) -> tuple[Any, Any]:
    cohort = await cohorts.share(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    user = await users.lock(tx, user_id)
    if user is None or user["erased_at"] is not None:
        raise NotFound(f"there is no user {user_id}")
    if not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
        raise NotEnrollable(f"{cohort['name']} is not open for enrolment")
    if (is_known or cohort["price"] == 0) and await enrollments.live(tx, user_id, cohort_id) is not None:
        raise AlreadyEnrolled(f"you are enrolled in {cohort['name']} already")
    return cohort, user


async def _page_end(tx: Tx) -> Any:
    return await tx.fetchval("select onceward.now()") + timedelta(minutes=settings().hold_minutes) + SLACK


def _page_lifetime() -> timedelta:
    return timedelta(minutes=settings().hold_minutes) + SLACK / 2


async def _refuse_while_paying(tx: Tx, user_id: UUID, cohort: Any, kind: Kind) -> None:
    is_extension = kind == "extension"
    if await pending_payments.is_pending(tx, user_id, cohort["id"], extension=is_extension):
        bought = f"more access to {cohort['name']}" if is_extension else cohort["name"]
        raise PaymentPending(f"your payment for {bought} is being processed: if it fails, you can pay again")


async def _started(tx: Tx, user_id: UUID, cohort: Any, kind: Kind, *, is_known: bool = True) -> Any:
    """Return the checkout of this kind that the person has started, or None.

    One that cannot be used any more, or is for the other way to pay, is replaced, so that nobody holds two places or can
    pay on two pages.
    """
    shortest = timedelta(minutes=settings().hold_minutes)
    started = await payments.started_checkout(tx, user_id, cohort["id"], kind, shortest)
    # After the lock of the started checkout: its payment may have begun while this request waited for the lock.
    if is_known:
        await _refuse_while_paying(tx, user_id, cohort, kind)
    if started is None or (started["kind"] == kind and started["is_usable"]):
        return started
    await payment_pages.replace(tx, started)
    return None


async def _hold(tx: Tx, cohort: Any, user: Any, invite_token: str | None, kind: Kind) -> Any:
    checkout_id, until = uuid4(), await _page_end(tx)
    claim_id: int | None = None
    invite = None if invite_token is None else await waitlist.read_invite(tx, invite_token)
    if invite is not None and (invite["user_id"], invite["cohort_id"]) == (user["id"], cohort["id"]):
        # The claim of the invite is used, so that the person does not take two places.
        await extend(tx, [invite["claim_id"]], until=until)
        await invites.extend_invite(tx, invite["id"], until)
    else:
        invite = None
        try:
            held = await claim(tx, [Want(pool_key(cohort["id"]))], holder=f"checkout:{checkout_id}", until=until)
        except CapacityRefused as refused:
            raise CohortFull(f"{cohort['name']} is full: join the waitlist") from refused
        claim_id = held.ids[0]
    return await payments.add_checkout(
        tx,
        checkout_id=checkout_id,
        kind=kind,
        user_id=user["id"],
        cohort_id=cohort["id"],
        enrollment_id=None,
        invite_id=None if invite is None else invite["id"],
        claim_id=claim_id,
        amount=cohort["instalment_price"] if kind == "subscription" else cohort["price"],
        currency=cohort["currency"],
        expires_at=until,
        page_lifetime=_page_lifetime(),
    )


async def _open_page(
    engine: Engine, organization: UUID, checkout: Any, cohort: Any, user: Any, *, cancel_url: str, is_new: bool
) -> StartedCheckout:
    """Return the page of a checkout. Only the request that started the checkout ends it if the page cannot be opened."""
    if checkout["payment_url"] is not None:
        return StartedCheckout(checkout["payment_url"], checkout["id"])
    try:
        outcome = await _create_session(organization, checkout, cohort, user, cancel_url)
    except NotSet:
        if is_new:
            await _close(engine, organization, checkout)
        raise
    page = outcome if isinstance(outcome, Accepted) and outcome.detail.get("url") else None
    if page is None and is_new:
        await _close(engine, organization, checkout)
    async with engine.transaction(organization=organization) as tx:
        if page is not None:
            await payments.set_page(tx, checkout["id"], str(page.reference), str(page.detail["url"]))
        stored = await payments.checkout(tx, checkout["id"])
        # Another request may have ended the checkout before the page was stored: then nobody may pay on the page.
        if page is not None and stored["stripe_session_id"] != page.reference:
            await payment_pages.close_soon(tx, str(page.reference))
    if stored["payment_url"] is None:
        raise PaymentUnavailable("the payment service is not available: try again in a few minutes")
    return StartedCheckout(stored["payment_url"], stored["id"])


async def _create_session(organization: UUID, checkout: Any, cohort: Any, user: Any, cancel_url: str) -> ServiceAnswer:
    stripe = await app.services.stripe(organization)
    metadata = {
        "app": APP,
        "kind": checkout["kind"],
        "cohortId": str(cohort["id"]),
        "userId": str(user["id"]),
        "checkoutId": str(checkout["id"]),
    }
    if checkout["enrollment_id"] is not None:
        metadata["enrollmentId"] = str(checkout["enrollment_id"])
    by_month = checkout["kind"] == "subscription"
    title = f"{cohort['name']}: more access" if checkout["kind"] == "extension" else cohort["name"]
    price: dict[str, Any] = {
        "currency": checkout["currency"].lower(),
        "unit_amount": to_stripe(checkout["amount"], checkout["currency"]),
        "product_data": {"name": f"{title}: {cohort['instalment_count']} instalments" if by_month else title},
    }
    if by_month:
        price["recurring"] = {"interval": "month"}
    return await stripe.create_checkout_session(
        key=f"checkout:{checkout['id']}",
        line_items=[{"quantity": 1, "price_data": price}],
        mode="subscription" if by_month else "payment",
        success_url=links.home(),
        cancel_url=cancel_url,
        client_reference_id=str(checkout["id"]),
        customer_email=user["email"],
        metadata=metadata,
        expires_at=int(checkout["page_expires_at"].timestamp()),
    )


async def _close(engine: Engine, organization: UUID, checkout: Any) -> None:
    """Give the place back, unless another request has opened the page meanwhile."""
    async with engine.transaction(organization=organization) as tx:
        if (await payments.checkout(tx, checkout["id"]))["payment_url"] is not None:
            return
        ended = await payments.end_checkout(tx, checkout["id"], "failed")
        if ended is not None and ended["claim_id"] is not None:
            await release(tx, [ended["claim_id"]])
            await promote_soon(tx, checkout["cohort_id"])
