"""A simulated mail relay that keeps all mails. Needs aiosmtpd, which the extra `testing` installs."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from importlib import import_module
from typing import Any, Self

from onceward.extras import extra


@dataclass(frozen=True, slots=True)
class Mail:
    """One accepted mail: its envelope and its message."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage = field(repr=False)
    content: bytes = field(default=b"", repr=False)
    """The bytes that arrived, as a verifier of signatures reads them."""


class SmtpSimulator:
    """A mail relay on loopback, without encryption. Each mail uses up one fault, in order."""

    needs_package = "aiosmtpd"

    def __init__(self) -> None:
        self.mails: list[Mail] = []
        self.connections = 0
        self.host_names: list[str] = []
        """What clients said in EHLO."""
        self.offers_smtputf8 = True
        self.refused: dict[str, str] = {}
        self.sender_refusal: str | None = None
        """The reply to every MAIL FROM, such as `550 5.7.60 not permitted to send as this sender`."""
        self._replies: deque[str | None] = deque()
        self._server: asyncio.Server | None = None
        self._transports: set[asyncio.Transport] = set()
        self._stopping = asyncio.Event()

    @property
    def host(self) -> str:
        return "127.0.0.1"

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("SmtpSimulator has not been started")
        return int(self._server.sockets[0].getsockname()[1])

    def fail_next(self, count: int = 1, *, reply: str = "451 4.3.0 simulated failure") -> None:
        """Refuse the next mails after DATA. `reply` starts with the SMTP code."""
        self._replies.extend([reply] * count)

    def drop_after_send(self, count: int = 1) -> None:
        """Accept the next mails, then drop the connection instead of replying."""
        self._replies.extend(["drop_after"] * count)

    def hang(self, count: int = 1) -> None:
        """Do not reply to the next mails."""
        self._replies.extend(["hang"] * count)

    def refuse(self, recipient: str, *, reply: str = "550 5.1.1 no such user") -> None:
        self.refused[recipient] = reply

    def close_connections(self) -> None:
        """Drop all open connections, as a relay does with idle clients."""
        for transport in tuple(self._transports):
            transport.abort()

    async def start(self, *, port: int = 0) -> None:
        protocol = _protocol_class()
        simulator = self

        def connected() -> asyncio.BaseProtocol:
            simulator.connections += 1
            return protocol(_Handler(simulator), hostname="simulated", enable_SMTPUTF8=simulator.offers_smtputf8)

        self._server = await asyncio.get_running_loop().create_server(connected, self.host, port)

    async def stop(self) -> None:
        self._stopping.set()
        if self._server is not None:
            self._server.close()
            self.close_connections()
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def take(self, server: Any, envelope: Any) -> str:
        """Accept or refuse one mail. Return the SMTP reply."""
        reply = self._replies.popleft() if self._replies else None
        if reply == "hang":
            await self._stopping.wait()
            return "421 simulated stop"
        if reply not in (None, "drop_after"):
            return reply
        content = bytes(envelope.content)
        message = message_from_bytes(content, policy=policy.default)
        self.mails.append(Mail(str(envelope.mail_from), tuple(envelope.rcpt_tos), message, content))
        if reply == "drop_after":
            server.transport.abort()
        return "250 2.0.0 taken"

    def track(self, transport: asyncio.Transport) -> None:
        self._transports.add(transport)


class _Handler:
    """The hooks of aiosmtpd, which sets their names."""

    def __init__(self, simulator: SmtpSimulator) -> None:
        self._simulator = simulator

    async def handle_EHLO(
        self, server: Any, session: Any, envelope: Any, hostname: str, responses: list[str]
    ) -> list[str]:
        session.host_name = hostname
        self._simulator.host_names.append(hostname)
        self._simulator.track(server.transport)
        return responses

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        if (reply := self._simulator.sender_refusal) is not None:
            return reply
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 ok"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: list[str]) -> str:
        if (reply := self._simulator.refused.get(address)) is not None:
            return reply
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 ok"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        return await self._simulator.take(server, envelope)


def _protocol_class() -> Any:
    with extra("testing", "the simulated mail server"):
        return import_module("aiosmtpd.smtp").SMTP
