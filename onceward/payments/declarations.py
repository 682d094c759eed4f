"""What apps declare about payments: subjects with their hooks, accounts, and the accounts of the ledger."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from onceward.integration import integrations

from .errors import UnknownSubject
from .model import Books

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.services import Services

    from .payment_pages import Visit
    from .service import PaymentService

HOOKS = (
    "on_paid",
    "on_returned",
    "on_processing",
    "on_declined",
    "on_unpaid",
    "on_refunded",
    "on_disputed",
    "on_instalment",
)
Hook = Callable[[Any, Any], Awaitable[Any]]
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


@dataclass(slots=True)
class Subject:
    """One type of things that are paid for, with the functions of its app."""

    type: str
    declarations: Declarations
    lock: Callable[[Any, str], Awaitable[Any]] | None = None
    find: Callable[[Any, str], Awaitable[Sequence[Any]]] | None = None
    hooks: dict[str, Hook] = field(default_factory=dict[str, Hook])

    @property
    def books(self) -> Books | None:
        return self.declarations.declared_books


@dataclass(frozen=True, slots=True)
class DeclaredAccount:
    """The installation's account at a service: every organization without an account of this name uses it."""

    name: str
    service: str
    source: str


@dataclass(slots=True)
class PaymentRegistry:
    """The subjects and accounts of an app and of the apps that it includes."""

    subjects: dict[str, Subject] = field(default_factory=dict[str, Subject])
    accounts: dict[str, DeclaredAccount] = field(default_factory=dict[str, DeclaredAccount])
    services: Callable[[], Services] | None = None
    """The services of the process, once an app of it declares payments."""

    def page_url(self, payment_id: UUID) -> str:
        """Return our address of a payment's page."""
        if self.services is None:
            raise UnknownSubject("no app of this process declares payments")
        return f"{self.services().settings.url}/pay/{payment_id}"

    def subject(self, type: str) -> Subject:
        try:
            return self.subjects[type]
        except KeyError:
            known = ", ".join(sorted(self.subjects)) or "none"
            raise UnknownSubject(
                f"no app of this process declares payments of {type!r} with @app.payments.on_paid: it declares {known}"
            ) from None

    def include(self, other: PaymentRegistry) -> None:
        """Add the declarations of another app. Two apps cannot declare the same subject type or account."""
        for type, subject in other.subjects.items():
            if self.subjects.setdefault(type, subject) is not subject:
                raise ValueError(f"two apps declare payments of {type!r}: give one of them another name")
        for name, account in other.accounts.items():
            if self.accounts.setdefault(name, account) != account:
                raise ValueError(f"two apps declare different payment accounts {name!r}")
        self.services = self.services or other.services


class Declarations:
    """`app.payments`: the decorators of one app."""

    def __init__(
        self,
        registry: Callable[[], PaymentRegistry],
        *,
        first_use: Callable[[], None],
        handle: Callable[[str, str], None],
    ) -> None:
        """`first_use` adds the tasks of the machine to the app; `handle(source, service)` its event handlers for a
        source."""
        self._registry = registry
        self._first_use = first_use
        self._handle = handle
        self.declared_books: Books | None = None

    def books(self, books: Books) -> None:
        """Post every payment of this app to the ledger, with these accounts."""
        self.declared_books = books

    def account(self, name: str, *, service: str, source: str) -> None:
        """Declare the installation's account at a service, and the webhook source that its events come from.

        Every organization without an account `name` of its own uses it.
        """
        service_class(service)
        self._first_use()
        registry = self._registry()
        declared = DeclaredAccount(name, service, source)
        if registry.accounts.setdefault(name, declared) != declared:
            raise ValueError(f"the payment account {name!r} is declared twice")
        self._handle(source, service)

    def subject(
        self,
        type: str,
        *,
        lock: Callable[[Any, str], Awaitable[Any]] | None = None,
        find: Callable[[Any, str], Awaitable[Sequence[Any]]] | None = None,
    ) -> None:
        """Name functions of the app for subjects of this type.

        `lock`, `async def (tx: Tx, subject_id: str)`, locks rows of the app before the machine locks a payment. `find`,
        `async def (tx: Tx, text: str) -> Sequence[UUID | str]`, returns the ids of the subjects that a text names, such
        as the name of a buyer or the code of an order: operators find payments by it, and only the app stores it.
        """
        subject = self._subject(type)
        subject.lock, subject.find = lock, find

    async def visit(self, engine: Any, payment_id: UUID, *, organization: UUID) -> Visit:
        """Return where the buyer of a payment goes, and open the page at the service: for a route that redirects by
        itself."""
        from .payment_pages import visit

        services = self._registry().services
        assert services is not None
        return await visit(lambda: engine.transaction(organization=organization), services(), payment_id)

    def on_paid(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (payment: Payment, tx: Tx) -> Accept | Return` when money arrived for a subject of this
        type."""
        return self._declare(type, "on_paid")

    def on_returned(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (payment: Payment, tx: Tx)` when the machine returns money without asking the app.

        `payment.reason` is `wrong_currency` or `erased`. What the function returns is the result of the webhook.
        """
        return self._declare(type, "on_returned")

    def on_processing(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (payment: Payment, tx: Tx)` when a buyer paid by a method that takes days."""
        return self._declare(type, "on_processing")

    def on_declined(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (payment: Payment, tx: Tx)` when a try to pay failed and the buyer may try again."""
        return self._declare(type, "on_declined")

    def on_unpaid(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (payment: Payment, tx: Tx)` when a payment ended without money."""
        return self._declare(type, "on_unpaid")

    def on_refunded(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (refund: Refund, tx: Tx)` when a refund is done, failed or was settled by hand."""
        return self._declare(type, "on_refunded")

    def on_disputed(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (dispute: Dispute, tx: Tx)` when a dispute is opened, won or lost."""
        return self._declare(type, "on_disputed")

    def on_instalment(self, type: str, /) -> Callable[[F], F]:
        """Run `async def (instalment: Instalment, tx: Tx) -> Accept | Return | None` when a plan of instalments
        changes."""
        return self._declare(type, "on_instalment")

    def _declare(self, type: str, hook: str) -> Callable[[F], F]:
        def register(function: F) -> F:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(f"{hook}({type!r}): the function must be `async def`")
            subject = self._subject(type)
            if hook in subject.hooks:
                raise ValueError(f"{hook}({type!r}) is declared twice: a type has one function for each change")
            subject.hooks[hook] = function
            return function

        return register

    def _subject(self, type: str) -> Subject:
        self._first_use()
        registry = self._registry()
        subject = registry.subjects.setdefault(type, Subject(type, self))
        if subject.declarations is not self:
            raise ValueError(f"two apps declare payments of {type!r}: give one of them another name")
        return subject


@cache
def service_class(name: str) -> type[PaymentService]:
    """Return the class that takes payments through a service."""
    known = {each.name for each in integrations().having("payments")}
    if name not in known:
        raise ValueError(f"service {name!r} takes no payments: use one of {', '.join(sorted(known)) or 'none'}")
    return integrations().load(name, "payments")


def is_by_hand(name: str) -> bool:
    """Return whether people record the payments of a service: it has no account to call, and no balance to compare."""
    return getattr(service_class(name), "is_by_hand", False)


def payment_services() -> list[str]:
    """Return the names of the installed services that take payments."""
    return [each.name for each in integrations().having("payments")]
