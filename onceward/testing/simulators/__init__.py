"""Simulators of external services: HTTP and SMTP servers on loopback that follow the services' rules and can fail.

async with Simulators() as sims:
    app.services.simulate("acme", sims.acme.url)
    sims.acme.drop_after_send()
"""

import asyncio
from typing import Any, Self

from onceward.extras import find_library
from onceward.integration import integrations

from .customer import CustomerEndpoint
from .server import Received, Simulator


class Simulators:
    """The simulators of all installed integrations by name, and a customer's endpoint, each on a free port.

    One that needs a package which is not installed does not start.
    """

    def __init__(self) -> None:
        self.customer = CustomerEndpoint()
        self._made: dict[str, Any] = {
            each.name: integrations().load(each.name, "simulator")() for each in integrations().having("simulator")
        }
        for name, each in self._made.items():
            if isinstance(each, Simulator):
                each.name = name

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_made"][name]
        except KeyError:
            raise AttributeError(f"there is no simulator {name!r}") from None

    @property
    def all(self) -> tuple[Any, ...]:
        return (self.customer, *self._made.values())

    @property
    def over_http(self) -> tuple[Simulator, ...]:
        return tuple(part for part in self.all if isinstance(part, Simulator))

    async def start(self) -> None:
        try:
            await asyncio.gather(*(each.start() for each in self.all if _is_available(each)))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await asyncio.gather(*(each.stop() for each in self.all))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _is_available(simulator: Any) -> bool:
    package: str | None = getattr(simulator, "needs_package", None)
    return package is None or find_library(package) is not None


__all__ = ["CustomerEndpoint", "Received", "Simulator", "Simulators"]
