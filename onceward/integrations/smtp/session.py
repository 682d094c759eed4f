"""An SMTP session after its handshake. The envelope of a mail is one write if the relay offers PIPELINING (RFC 2920).

So a mail takes two round trips instead of four. aiosmtplib connects, encrypts and logs in, then hands its transport
over.
"""

import asyncio
import re
from collections import deque
from typing import NamedTuple

from aiosmtplib.email import quote_address

from onceward.errors import OncewardError

LINE_END = re.compile(rb"\r\n|\r|\n")
SIMPLE_ADDRESS = re.compile(r"[A-Za-z0-9.+_-]+@[A-Za-z0-9.-]+")
"""An address in which nothing is to be parsed or quoted."""
UTF8_ADDRESS = re.compile(r"[^\s<>\"(),:;\\\[\]@\x00-\x1f\x7f]+@[A-Za-z0-9.-]+")
"""An address for SMTPUTF8: the domain is in its ASCII form."""
LONGEST_REPLY = 64 * 1024
QUIT_S = 2.0
COMPLETED, WILL_FORWARD, START_INPUT = 250, 251, 354


class SessionLost(OncewardError):
    """The relay closed the connection, did not answer in time, or sent something that is not a reply."""


class Reply(NamedTuple):
    """A reply of the relay: its code, and the text of its last line."""

    code: int
    text: str


class Refusal(NamedTuple):
    """What the relay refused, and its reply."""

    what: str
    reply: Reply


NO_SMTPUTF8 = Reply(553, "5.6.7 SMTPUTF8 is required")
"""The reply of RFC 6531 to an address that the server cannot take. Here the server was not asked."""


class SmtpSession(asyncio.Protocol):
    """Sends mails over a transport, one at a time."""

    def __init__(
        self, transport: asyncio.Transport, *, pipelining: bool, timeout_s: float, smtputf8: bool = False
    ) -> None:
        self._transport = transport
        self._pipelining = pipelining
        self._smtputf8 = smtputf8
        self._timeout_s = timeout_s
        self._buffer = b""
        self._replies: deque[Reply] = deque()
        self._expected = 0
        self._arrived = asyncio.Event()
        self._lost: str | None = None
        transport.set_protocol(self)

    @property
    def offers_smtputf8(self) -> bool:
        return self._smtputf8

    @property
    def is_open(self) -> bool:
        return self._lost is None and not self._transport.is_closing()

    # -- mails ----------------------------------------------------------------------------------------------------

    async def begin(self, sender: str, to: str) -> Refusal | None:
        """Announce a mail. Return None if the relay waits for its content, otherwise what the relay refused.

        Raises `SessionLost`. The relay has accepted no mail then.
        """
        is_utf8 = not (sender.isascii() and to.isascii())
        if is_utf8 and not self._smtputf8:
            return Refusal("letters beyond ASCII in an address, because it does not offer SMTPUTF8", NO_SMTPUTF8)
        options = b" SMTPUTF8 BODY=8BITMIME" if is_utf8 else b""
        commands = [b"MAIL FROM:" + _address(sender) + options, b"RCPT TO:" + _address(to), b"DATA"]
        replies: list[Reply] = []
        if self._pipelining:
            self._send(*commands)
        for command in commands:
            if not self._pipelining:
                self._send(command)
            replies.append(await self._reply())
            if not self._pipelining and not _is_accepted(len(replies) - 1, replies[-1]):
                break
        refused = [number for number, reply in enumerate(replies) if not _is_accepted(number, reply)]
        if not refused:
            return None
        if replies[-1].code == START_INPUT:
            # The relay waits for the content of a mail without a sender or recipient. It refuses an empty one.
            self._expected += 1
            self._write(b".\r\n")
            await self._reply()
        first = refused[0]
        return Refusal(("the sender", "the recipient", "the mail")[first], replies[first])

    async def finish(self, content: bytes) -> Reply:
        """Send the content of the announced mail. If this raises `SessionLost`, the relay may have accepted the
        mail."""
        self._expected += 1
        self._write(_as_lines(content) + b".\r\n")
        return await self._reply()

    async def reset(self) -> None:
        """Forget the envelope of a refused mail, so that it does not become part of the next. Raises `SessionLost`."""
        self._send(b"RSET")
        reply = await self._reply()
        if reply.code != COMPLETED:
            self._lose(f"RSET was answered with {reply.code}")
            raise SessionLost(self._lost)

    async def quit(self) -> None:
        """End the session politely, and close the connection in any case."""
        try:
            async with asyncio.timeout(QUIT_S):
                self._send(b"QUIT")
                await self._reply()
        except (SessionLost, TimeoutError):
            self._lose("the relay did not answer QUIT")
        self.close()

    def close(self) -> None:
        self._lose("closed")
        self._transport.close()

    # -- commands and replies ------------------------------------------------------------------------------------------

    def _send(self, *commands: bytes) -> None:
        self._expected += len(commands)
        self._write(b"".join([command + b"\r\n" for command in commands]))

    def _write(self, data: bytes) -> None:
        if not self.is_open:
            raise SessionLost(self._lost or "closed")
        self._transport.write(data)

    async def _reply(self) -> Reply:
        try:
            async with asyncio.timeout(self._timeout_s):
                while not self._replies:
                    if self._lost is not None:
                        raise SessionLost(self._lost)
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            self._lose(f"no answer within {self._timeout_s:g} s")
            self._transport.abort()
            raise SessionLost(self._lost) from None
        return self._replies.popleft()

    def _lose(self, reason: str) -> None:
        if self._lost is None:
            self._lost = reason
        self._arrived.set()

    # -- called by the transport ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if not line[:3].isdigit() or self._expected == 0:
                # Without a command it is a farewell ("421 idle for too long"). It must not answer the next command.
                self._lose("the relay sent something that was not asked for")
                self._transport.close()
                return
            if line[3:4] != b"-":
                self._expected -= 1
                self._replies.append(Reply(int(line[:3]), line[4:].strip().decode(errors="replace")))
        if len(self._buffer) > LONGEST_REPLY:
            self._lose("the reply is too long")
            self._transport.close()
        self._arrived.set()

    def eof_received(self) -> bool:
        self._lose("the relay closed the connection")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose("connection lost" if exc is None else type(exc).__name__)


def _is_accepted(number: int, reply: Reply) -> bool:
    """Return whether the relay accepted the command with this number: MAIL, RCPT or DATA."""
    return reply.code in ((COMPLETED,), (COMPLETED, WILL_FORWARD), (START_INPUT,))[number]


def is_address(text: str) -> bool:
    """Return whether SMTP can carry the address. What libraries make of a bad one differs between their versions."""
    try:
        _address(text)
    except ValueError:
        return False
    return True


def _address(address: str) -> bytes:
    if SIMPLE_ADDRESS.fullmatch(address):
        return f"<{address}>".encode("ascii")
    if "\r" in address or "\n" in address:
        raise ValueError("a mail address must not contain a line break")
    if not address.isascii():
        if not UTF8_ADDRESS.fullmatch(address):
            raise ValueError("a mail address beyond ASCII must have neither spaces, quotes nor brackets")
        return f"<{address}>".encode()
    return quote_address(address).encode("ascii")


def _as_lines(content: bytes) -> bytes:
    """Return the content with the line ends of SMTP, and a second dot before each line that starts with one."""
    content = LINE_END.sub(b"\r\n", content) if b"\r" in content else content.replace(b"\n", b"\r\n")
    content = content.replace(b"\r\n.", b"\r\n..")
    if content.startswith(b"."):
        content = b"." + content
    return content if content.endswith(b"\r\n") else content + b"\r\n"
