"""Start a checkout: hold a place, then open a payment page that ends with the hold.

The place is held and the payment recorded in one transaction, and the page opened after its commit, so a crash in
between costs a hold that expires by itself. A person has one started checkout for a cohort: a repeated request, also at
the same moment, gets the same page. The other way to pay is another page of the same checkout, and the older page
closes. While a payment takes days, such as a bank debit, no checkout starts.

To know an address is not to be the person: somebody who is not signed in gets a checkout of their own browser, and
neither sees nor replaces the page of the person.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine, Tx
from onceward.capacity import CapacityRefused, Want, claim, extend, look, release
from onceward.money import Money
from onceward.payments import Instalments, Page
from onceward_apps.learning import discounts, links, schools, waitlist
from onceward_apps.learning.app import ACCOUNT, ENROLMENT, EXTENSION, app, settings
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
from onceward_apps.learning.model import is_enrollable, pool_key
from onceward_apps.learning.store import checkouts, cohorts, enrollments, users
from onceward_apps.learning.store import waitlist as invites
from onceward_apps.learning.store.rows import Student

SLACK = timedelta(minutes=1)
"""A page of the payment service lives a little longer than the hold asks for."""


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
    browser: str = "",
    may_hold: bool = True,
    discount_code: str = "",
) -> StartedCheckout:
    """Hold a place for the person and return the payment page. A free cohort enrols at once.

    `is_known` says whether the caller has proven to be this person. Anybody else gets a payment page in any case: an
    answer that depends on the person would tell a stranger who is enrolled. A second payment is refunded when it
    arrives. `browser` names the browser of such a caller, so that the form sent twice gets one page. Without
    `may_hold` the page is opened while places are free, and the place is taken when the payment arrives.

    With an invite, the place of the invite is used and held until the page ends. With `instalments`, the page starts a
    plan of monthly payments, if the cohort offers them. `discount_code` lowers the price; without it a checkout that
    had one gets a page with the full price.
    """
    async with engine.transaction(organization=organization) as tx:
        cohort, user = await _allowed(tx, cohort_id, user_id, is_known=is_known)
        owner = "" if is_known else browser or f"once:{uuid4()}"
        started = await checkouts.started(tx, user_id, cohort_id, owner)
        # After the lock of the started checkout: its payment may have begun while this request waited for the lock.
        if (is_known or cohort["price"] == 0) and await checkouts.is_waiting(tx, user_id, cohort_id):
            raise _pending(cohort["name"])
        if cohort["price"] == 0:
            enrollment_id = await enrol_free(tx, cohort_id, user_id)
            return StartedCheckout(links.home(enrollment_id), enrollment_id=enrollment_id)
        if instalments and cohort["instalment_count"] == 0:
            raise NotEnrollable(f"{cohort['name']} cannot be paid in instalments")
        discount = await discounts.find(tx, discount_code, cohort, instalments=instalments) if discount_code else None
        checkout = started or await _hold(tx, cohort, user, invite_token, owner, may_hold=may_hold)
        page = await _open(tx, checkout, cohort, user, discount, instalments=instalments)
        if started is not None:
            await _keep_place(tx, started, cohort, page)
        await discounts.attach(tx, checkout, discount, until=page.expires_at, may_hold=may_hold)
    return await _visit(engine, organization, page, checkout["id"], is_new=started is None)


async def start_extension(engine: Engine, organization: UUID, *, enrollment_id: UUID) -> StartedCheckout:
    """Return the payment page for an extension of the access."""
    async with engine.transaction(organization=organization) as tx:
        enrollment = await enrollments.lock(tx, enrollment_id)
        if enrollment is None or enrollment["erased"] or enrollment["status"] not in ("ACTIVE", "EXPIRED"):
            raise NotFound(f"there is no enrolment {enrollment_id} whose access can be extended")
        cohort = await cohorts.find(tx, enrollment["cohort_id"])
        if cohort["extension_price"] == 0:
            raise NotEnrollable(f"{cohort['name']} offers no extension of access")
        if await checkouts.is_extending(tx, enrollment_id):
            raise _pending(f"more access to {cohort['name']}")
        school = await schools.school_of(tx)
        page = await tx.payments.open(
            EXTENSION,
            enrollment_id,
            amount=Money(cohort["extension_price"], cohort["currency"]),
            title=f"{cohort['name']}: more access",
            account=ACCOUNT,
            success_url=school.rebased(links.home()),
            cancel_url=school.rebased(links.home(enrollment_id)),
            expires=_lifetime(),
            email=enrollment["email"],
            locale=enrollment["locale"],
        )
    return await _visit(engine, organization, page, None, is_new=False)


def _pending(bought: str) -> PaymentPending:
    return PaymentPending(f"your payment for {bought} is being processed: if it fails, you can pay again")


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


def _lifetime() -> timedelta:
    return timedelta(minutes=settings().hold_minutes) + SLACK


async def _open(tx: Tx, checkout: Any, cohort: Any, user: Student, discount: Any, *, instalments: bool) -> Page:
    count = cohort["instalment_count"]
    school = await schools.school_of(tx)
    price = Money(cohort["instalment_price"] if instalments else cohort["price"], cohort["currency"])
    plan = Instalments(count, grace_days=settings().instalment_grace_days) if instalments else None
    return await tx.payments.open(
        ENROLMENT,
        checkout["id"],
        amount=discounts.price_with(discount, price),
        title=f"{cohort['name']}: {count} instalments" if instalments else cohort["name"],
        account=ACCOUNT,
        success_url=school.rebased(links.enrolled(checkout["id"])),
        cancel_url=school.rebased(links.cohort(cohort["id"])),
        expires=_lifetime(),
        email=user["email"],
        locale=user["locale"],
        instalments=plan,
    )


async def _hold(tx: Tx, cohort: Any, user: Student, invite_token: str | None, browser: str, *, may_hold: bool) -> Any:
    checkout_id, until = uuid4(), cohort["now"] + _lifetime()
    claim_id: int | None = None
    invite = None if invite_token is None else await waitlist.read_invite(tx, invite_token)
    if invite is not None and (invite["user_id"], invite["cohort_id"]) == (user["id"], cohort["id"]):
        # The claim of the invite is used, so that the person does not take two places.
        await extend(tx, [invite["claim_id"]], until=until)
        await invites.extend_invite(tx, invite["id"], until)
    else:
        invite = None
        if may_hold and (not browser or await _leaves_half(tx, cohort["id"])):
            claim_id = await _claim(tx, cohort, checkout_id, until)
        elif not await has_place(tx, cohort["id"]):
            raise _full(cohort)
    return await checkouts.add(
        tx,
        checkout_id=checkout_id,
        user_id=user["id"],
        cohort_id=cohort["id"],
        invite_id=None if invite is None else invite["id"],
        claim_id=claim_id,
        browser=browser,
    )


async def _keep_place(tx: Tx, checkout: Any, cohort: Any, page: Page) -> None:
    """Hold the place of a started checkout as long as its page, which may be a new one."""
    held = checkout["claim_id"]
    if held is None and checkout["invite_id"] is None:
        return  # it holds no place
    if held is None:
        await invites.extend_invite(tx, checkout["invite_id"], page.expires_at)
        held = (await invites.lock_invite(tx, checkout["invite_id"]))["claim_id"]
    if held is not None:
        with suppress(CapacityRefused):  # the hold has expired, and another person has the place
            await extend(tx, [held], until=page.expires_at)
            return
    if checkout["browser"] and not await _leaves_half(tx, cohort["id"]):
        return  # the place is taken when the payment arrives
    await checkouts.hold(tx, checkout["id"], await _claim(tx, cohort, checkout["id"], page.expires_at))


async def _leaves_half(tx: Tx, cohort_id: UUID) -> bool:
    """Return whether another place may be held for somebody who is not signed in.

    Together they hold at most half of the places that are not sold or held by others: with many addresses a stranger
    would otherwise hold all of them, and nobody could pay.
    """
    held = await checkouts.held_by_strangers(tx, cohort_id)
    free = (await look(tx, pool_key(cohort_id))).free
    return free is None or held + 1 <= (held + free) // 2


async def _claim(tx: Tx, cohort: Any, checkout_id: UUID, until: Any) -> int:
    try:
        held = await claim(tx, [Want(pool_key(cohort["id"]))], holder=f"checkout:{checkout_id}", until=until)
    except CapacityRefused as refused:
        raise _full(cohort) from refused
    return held.ids[0]


async def has_place(tx: Tx, cohort_id: UUID) -> bool:
    """Return whether a place is free now. Nothing is held, so the next moment may take it."""
    free = (await look(tx, pool_key(cohort_id))).free
    return free is None or free > 0


def _full(cohort: Any) -> CohortFull:
    return CohortFull(f"{cohort['name']} is full: join the waitlist")


async def _visit(
    engine: Engine, organization: UUID, page: Page, checkout_id: UUID | None, *, is_new: bool
) -> StartedCheckout:
    """Return the page at the payment service. Only the request that started a checkout ends it if there is no page."""
    found = await app.payments.visit(engine, page.payment_id, organization=organization)
    if found.state in ("page", "paid", "processing") and found.url is not None:
        return StartedCheckout(found.url, checkout_id)
    if is_new and checkout_id is not None:
        await _give_up(engine, organization, page.payment_id, checkout_id)
    raise PaymentUnavailable("the payment service is not available: try again in a few minutes")


async def _give_up(engine: Engine, organization: UUID, payment_id: UUID, checkout_id: UUID) -> None:
    """Give the place back, unless another request has opened the page meanwhile."""
    async with engine.transaction(organization=organization) as tx:
        checkout = await checkouts.lock(tx, checkout_id)
        payment = await tx.payments.get(payment_id)
        if payment is None or payment.status != "created" or payment.is_superseded or checkout["status"] != "started":
            return
        await tx.payments.close(ENROLMENT, checkout_id)
        await end_checkout(tx, checkout_id)


async def end_checkout(tx: Tx, checkout_id: UUID) -> None:
    """End a checkout that is not paid, and offer its place. A second call changes nothing."""
    ended = await checkouts.end(tx, checkout_id)
    if ended is None:
        return
    if ended["claim_id"] is not None and await release(tx, [ended["claim_id"]]):
        await promote_soon(tx, ended["cohort_id"])
    await discounts.give_back(tx, ended)
