"""Routes for buyers: look at an event, hold seats, check out, pay. They need no login."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from onceward import Tx
from onceward.messages import MAILS
from onceward.money import exponent
from onceward.web import ANYBODY, ANYTHING, AtMost, exposed
from onceward_apps.ticketing import baskets, checkout_payments, sale_terms
from onceward_apps.ticketing.codes import new_basket, order_token
from onceward_apps.ticketing.errors import NothingHeld, TicketingError
from onceward_apps.ticketing.model import seat_label
from onceward_apps.ticketing.routes.requests import (
    COUPONS_PER_HOUR,
    ORDER_LINK,
    EngineHere,
    Name,
    User,
    acting,
    basket_of,
    id_in,
    limit_coupons,
    limit_holds,
    limit_mail,
    order_for,
    owner_of,
    problem,
    remember_basket,
)
from onceward_apps.ticketing.store import keys, setup
from onceward_apps.ticketing.store import sale_terms as terms

router = APIRouter(prefix="/api/v1/ticketing/public", tags=["ticketing: buyers"])

Email = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=320)]


class HoldIn(BaseModel):
    """`seats` are labels of seats: the `label` of the row, then the number of the seat.

    `places` gives, for each section, the total number of places the basket holds afterwards: a repeat adds nothing.
    A presale `code` opens what is hidden or not on sale yet.
    """

    seats: Annotated[list[Annotated[str, Field(max_length=200)]], AtMost(100)] = Field(default_factory=list[str])
    places: Annotated[dict[UUID, Annotated[int, Field(ge=1, le=100)]], AtMost(20)] = Field(
        default_factory=dict[UUID, int]
    )
    code: str = Field("", max_length=40)


class TypesIn(BaseModel):
    """The ticket type of each hold; null is the price of its section."""

    types: Annotated[dict[UUID, UUID | None], AtMost(200)] = Field(min_length=1)
    code: str = Field("", max_length=40)


Answer = Annotated[str, Field(max_length=sale_terms.MOST_ANSWER)]
Answers = Annotated[dict[UUID, Answer], AtMost(50)]


class AnswersIn(BaseModel):
    """Answers to the event's questions by their ids: about the order, and about the ticket of each hold."""

    order: Answers = Field(default_factory=dict[UUID, str])
    tickets: Annotated[dict[UUID, Answers], AtMost(200)] = Field(default_factory=dict[UUID, dict[UUID, str]])


class LetGoIn(BaseModel):
    """Without `holds`, all holds of the basket are released."""

    holds: Annotated[list[UUID] | None, AtMost(200)] = None


class CheckoutIn(BaseModel):
    event_id: UUID
    email: Email
    name: Name = ""
    coupon: str | None = Field(None, max_length=40)
    locale: str | None = Field(None, max_length=35, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")
    answers: AnswersIn = Field(default_factory=AnswersIn)


class PayIn(BaseModel):
    token: str = ""
    provider: checkout_payments.Service = "stripe"


class TokenIn(BaseModel):
    token: str = ""


@router.get("/events/{event_id}")
@exposed(credential=ANYBODY, limit=f"presale codes: {COUPONS_PER_HOUR} an hour per address and event")
async def event(
    engine: EngineHere, event_id: UUID, request: Request, code: Annotated[str, Query(max_length=40)] = ""
) -> dict[str, Any]:
    """Return the event and its seat map. The live query `ticketing.seats` says which seats are free.

    What is hidden is listed for those who give a presale `code` that opens it.
    """
    owner = await owner_of(engine, "event", event_id)
    if code:
        await limit_coupons(engine, request, event_id)
    async with acting(engine, owner) as tx:
        return shown(
            await setup.event(tx, event_id),
            await setup.sections(tx, event_id),
            await setup.seat_rows(tx, event_id),
            types=await terms.types(tx, event_id),
            questions=await terms.questions(tx, event_id),
            code=await sale_terms.read_code(tx, event_id, code),
        )


def shown(
    event: Any, sections: list[Any], rows: list[Any], *, types: list[Any], questions: list[Any], code: Any
) -> dict[str, Any]:
    """Return the public fields of an event. A row of seats is its name and its number of seats, numbered from 1."""
    names = ("id", "name", "description", "starts_at", "ends_at", "currency", "status", "most_per_order", "hold_s")
    terms = ("fee_bps", "fee_paid_by", "tax_bps", "tax_included", "refund_policy", "support_contact")
    sale = ("sale_from", "sale_until", "most_per_customer", "group_from", "group_bps")
    by_section: dict[UUID, list[Any]] = {}
    for row in rows:
        by_section.setdefault(row["section_id"], []).append(row)
    return {
        **{name: event[name] for name in names + terms + sale},
        "currency_digits": exponent(event["currency"]),
        "organizer": event["organizer"],
        "venue": {"name": event["venue_name"], "address": event["venue_address"], "timezone": event["timezone"]},
        "questions": [
            {name: row[name] for name in ("id", "title", "about", "choices", "is_required")} for row in questions
        ],
        "sections": [
            {
                **{name: section[name] for name in ("id", "name", "kind", "price_cents", "sale_from", "sale_until")},
                "types": [
                    {name: row[name] for name in ("id", "name", "price_cents")}
                    for row in types
                    if row["section_id"] == section["id"]
                    and row["ended_at"] is None
                    and (not row["is_hidden"] or sale_terms.opens(code, row))
                ],
                "rows": [
                    {
                        "name": row["row_name"],
                        "label": seat_label(section["name"], row["row_name"]),
                        "seats": row["seats"],
                    }
                    for row in by_section.get(section["id"], [])
                ],
            }
            for section in sections
            if not section["is_hidden"] or sale_terms.opens(code, {"section_id": section["id"]})
        ],
    }


@router.post("/events/{event_id}/holds", status_code=201)
@exposed(
    "nothing", credential=ANYBODY, limit="`ONCEWARD_TICKETING_HOLDS_PER_MINUTE` seats a minute per address and event"
)
async def hold(
    engine: EngineHere, event_id: UUID, requested: HoldIn, request: Request, response: Response
) -> dict[str, Any]:
    """Hold all requested seats or none, for `hold_s` seconds. 409 names the seats that are taken, 429 when to retry."""
    basket = basket_of(request) or new_basket()
    owner = await owner_of(engine, "event", event_id)
    async with acting(engine, owner) as tx:
        before = await baskets.held(tx, event_id, basket)
    # What the basket holds already costs nothing: the page sends the new total with every click.
    new = baskets.missing(before, requested.seats, requested.places)
    await limit_holds(engine, request, event_id, seats=new)
    async with acting(engine, owner) as tx:
        held = await baskets.hold(
            tx, event_id, basket, labels=requested.seats, places=requested.places, code=requested.code
        )
        answer = await _held(tx, event_id, held)
    remember_basket(request, response, basket)
    return {"basket": basket, **answer}


@router.get("/events/{event_id}/holds")
@exposed(credential="basket")
async def holds(engine: EngineHere, event_id: UUID, request: Request) -> dict[str, Any]:
    owner, basket = await owner_of(engine, "event", event_id), basket_of(request)
    if basket is None:
        return {"holds": [], "until": None, "left_s": None}
    async with acting(engine, owner) as tx:
        return await _held(tx, event_id, await baskets.held(tx, event_id, basket))


@router.post("/events/{event_id}/holds/types")
@exposed("nothing", credential="basket", limit=f"presale codes: {COUPONS_PER_HOUR} an hour per address and event")
async def choose_types(engine: EngineHere, event_id: UUID, chosen: TypesIn, request: Request) -> dict[str, Any]:
    """Set the ticket types of holds. A checkout that was started with other prices ends."""
    owner, basket = await owner_of(engine, "event", event_id), basket_of(request)
    if basket is None:
        raise problem(NothingHeld("the basket holds no seats: choose seats first"))
    if chosen.code:
        await limit_coupons(engine, request, event_id)
    async with acting(engine, owner) as tx:
        return await _held(
            tx, event_id, await baskets.choose_types(tx, event_id, basket, chosen.types, code=chosen.code)
        )


@router.post("/events/{event_id}/holds/release")
@exposed("nothing", credential="basket")
async def let_go(engine: EngineHere, event_id: UUID, which: LetGoIn, request: Request) -> dict[str, Any]:
    owner, basket = await owner_of(engine, "event", event_id), basket_of(request)
    if basket is None:
        return {"holds": [], "until": None, "left_s": None}
    async with acting(engine, owner) as tx:
        return await _held(tx, event_id, await baskets.let_go(tx, event_id, basket, holds=which.holds))


@router.post("/checkouts", status_code=201)
@exposed("nothing", credential="basket", limit=f"coupon codes: {COUPONS_PER_HOUR} an hour per address and event")
async def start_checkout(engine: EngineHere, user: User, new: CheckoutIn, request: Request) -> dict[str, Any]:
    """Start a checkout for everything that the basket holds. `token` opens the order page: keep it secret.

    A caller with a JWT can open the order with the JWT too.
    """
    basket = basket_of(request)
    if basket is None:
        raise problem(NothingHeld("the basket holds no seats: choose seats first"))
    organization = await owner_of(engine, "event", new.event_id)
    if new.coupon:
        await limit_coupons(engine, request, new.event_id)
    async with acting(engine, organization) as tx:
        user_id = id_in(organization, user)
        buyer = baskets.Buyer(email=new.email, name=new.name.strip(), locale=new.locale, user_id=user_id)
        answers = sale_terms.Given(order=new.answers.order, tickets=new.answers.tickets)
        checkout = await baskets.start_checkout(tx, new.event_id, basket, buyer, coupon=new.coupon, answers=answers)
        token = order_token(await keys.signing_key(tx), checkout["id"], checkout["link_version"])
    names = ("id", "status", "currency", "subtotal_cents", "discount_cents", "tax_cents", "platform_fee_cents")
    return {
        **{name: checkout[name] for name in (*names, "total_cents", "tax_included", "fee_paid_by", "expires_at")},
        "token": token,
        "order_url": f"/orders/{checkout['id']}?access={token}",
    }


@router.post("/checkouts/{checkout_id}/pay")
@exposed(*ANYTHING, credential=ORDER_LINK, limit=MAILS)
async def pay(engine: EngineHere, checkout_id: UUID, user: User, how: PayIn, request: Request) -> dict[str, str]:
    """Return the URL of the payment page, or of the order page if there is nothing to pay."""
    organization = await owner_of(engine, "checkout", checkout_id)
    async with acting(engine, organization) as tx:
        order = await order_for(tx, checkout_id, how.token, user)
    if order["total_cents"] == 0:  # the next step sends the tickets, and nobody paid for the mail
        await limit_mail(engine, request, order["email"], sender=f"order:{checkout_id}")
    try:
        opened = await checkout_payments.open_payment(engine, organization, checkout_id, how.provider)
    except TicketingError as error:
        raise problem(error) from error
    return {"url": opened.url, "provider": opened.provider}


@router.post("/checkouts/{checkout_id}/abandon", status_code=204)
@exposed("call", credential=ORDER_LINK)
async def abandon(engine: EngineHere, checkout_id: UUID, user: User, bearer: TokenIn) -> None:
    """Abandon the checkout. Its seats are free at once."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, bearer.token, user)
        await baskets.abandon(tx, checkout_id)


async def _held(tx: Tx, event_id: UUID, held: baskets.Held) -> dict[str, Any]:
    """Return the holds of a basket, their price with fee and tax, and the time that is left."""
    now = await tx.fetchval("select onceward.clock()")
    priced = await baskets.price_of(tx, event_id, held.holds)
    return {
        "discount_cents": priced.discount_cents,
        "fee_cents": priced.platform_fee_cents,
        "tax_cents": priced.tax_cents,
        "total_cents": priced.total_cents,
        "holds": [
            {
                "id": row["id"],
                "seat_id": row["seat_id"],
                "section_id": row["section_id"],
                "place": row["label"] or row["section"],
                "type_id": row["type_id"],
                "is_addon": row["kind"] == "addon",
                "price_cents": row["price_cents"],
            }
            for row in held.holds
        ],
        "until": held.until,
        # Seconds as well as a time: the buyer's clock may be wrong, the countdown must not be.
        "left_s": None if held.until is None else max(0, int((held.until - now).total_seconds())),
    }
