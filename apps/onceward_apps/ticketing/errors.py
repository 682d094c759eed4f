"""The errors of ticketing. Routes take the HTTP status from `status`.

TicketingError
├── NotFound          the event, order or ticket does not exist in this organization
├── NoOrganization    the caller may act for several organizations and did not choose one
├── NotOnSale         the event is not on sale
├── SeatTaken         another buyer has the seat; the message says which seat and until when
├── Invalid           a value is not valid; the message names the field and the value
├── Exists            an object with this name exists already
├── TooMany           more tickets than an order may have
├── TooFast           more holds in a minute than one client address may request
├── NothingHeld       the basket holds no seats
├── BadCoupon         the coupon is unknown, used up or expired
├── BadCode           the presale code is unknown or expired
├── CheckoutClosed    the checkout can no longer be paid, changed or abandoned
├── NotPayable        the payment service refused the payment or is unavailable
│   └── CurrencyNotTaken   the payment service does not accept the currency of the event
├── NotRefundable     the tickets are void, used, or belong to another order
├── NotMatched        the bank transfer cannot pay this order, or was dealt with already
└── NotUndone         the scan cannot be taken back
"""

from __future__ import annotations

from typing import ClassVar

from onceward import OncewardError


class TicketingError(OncewardError):
    """Base of all errors of ticketing. The message names the object and the reason, and says what to do."""

    status: ClassVar[int] = 409


class NotFound(TicketingError):
    status = 404


class NoOrganization(TicketingError):
    """The caller may act for several organizations and did not choose one."""

    status = 400

    def __init__(self) -> None:
        super().__init__("choose the organization to act for with the header X-Organization")


class NotOnSale(TicketingError):
    pass


class SeatTaken(TicketingError):
    """`labels` are the seats that are not available."""

    def __init__(self, message: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.labels = labels


class TooMany(TicketingError):
    status = 422


class TooFast(TicketingError):
    """`retry_after_s` is the time in seconds after which the same request may succeed."""

    status = 429

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NothingHeld(TicketingError):
    pass


class BadCoupon(TicketingError):
    status = 422


class BadCode(TicketingError):
    status = 422


class CheckoutClosed(TicketingError):
    pass


class NotPayable(TicketingError):
    status = 502


class CurrencyNotTaken(NotPayable):
    status = 422


class NotRefundable(TicketingError):
    pass


class NotMatched(TicketingError):
    pass


class NotUndone(TicketingError):
    """The scan cannot be taken back. The message says why."""


class Invalid(TicketingError):
    """A value is not valid. The message names the field and the value."""

    status = 422


class Exists(TicketingError):
    """An object with this name exists already."""
