"""What ticketing refuses, by name. Routes choose the HTTP status from `status`.

TicketingError
├── NotFound          there is no such event, order or ticket here
├── NotOnSale         the event is not being sold
├── SeatTaken         somebody else has a seat: which, and until when
├── TooMany           more than an order may have
├── TooFast           more holds in a minute than one address may ask for
├── NothingHeld       a checkout without seats
├── BadCoupon         unknown, used up or over
├── CheckoutClosed    it can no longer be paid, changed or given up
├── NotPayable        the payment service refused or cannot be reached
│   └── CurrencyNotTaken   it does not take the currency of the event
└── NotRefundable     tickets that are void, used, or of another order
"""

from __future__ import annotations

from typing import ClassVar


class TicketingError(Exception):
    """The message says which, why, and what to do."""

    status: ClassVar[int] = 409


class NotFound(TicketingError):
    status = 404


class NotOnSale(TicketingError):
    pass


class SeatTaken(TicketingError):
    """`labels` are the seats that could not be had."""

    def __init__(self, message: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.labels = labels


class TooMany(TicketingError):
    status = 422


class TooFast(TicketingError):
    """`retry_after_s`: when as much may be held again."""

    status = 429

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NothingHeld(TicketingError):
    pass


class BadCoupon(TicketingError):
    status = 422


class CheckoutClosed(TicketingError):
    pass


class NotPayable(TicketingError):
    status = 502


class CurrencyNotTaken(NotPayable):
    status = 422


class NotRefundable(TicketingError):
    pass
