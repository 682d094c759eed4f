"""The outside world: a service that gets calls, a customer's endpoint, and a mail server. Each remembers what it got."""

from __future__ import annotations

from typing import Self

from aiohttp import web

from onceward.integrations.smtp.simulator import SmtpSimulator
from tools.chaos.history import Call


class Sink:
    """Accepts everything. It runs in the process of the test, which is never killed."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.deliveries: list[Call] = []
        self.mail = SmtpSimulator()
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def mails(self) -> list[int]:
        """Return the number in the subject of every mail that was accepted."""
        return [int(str(mail.message["subject"]).rpartition(" ")[2]) for mail in self.mail.mails]

    async def __aenter__(self) -> Self:
        site = web.Application()
        site.add_routes([web.post("/call", self._take_call), web.post("/hook", self._take_delivery)])
        self._runner = web.AppRunner(site, access_log=None)
        await self._runner.setup()
        listener = web.TCPSite(self._runner, "127.0.0.1", 0)
        await listener.start()
        self.port = self._runner.addresses[0][1]
        await self.mail.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.mail.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _take_call(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.calls.append(Call(body["kind"], int(body["ref"]), body["key"]))
        return web.json_response({"taken": True})

    async def _take_delivery(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.deliveries.append(Call("delivery", int(body["data"]["n"]), request.headers["webhook-id"]))
        return web.Response(text="thanks")
