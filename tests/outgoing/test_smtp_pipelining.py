"""A relay that offers PIPELINING gets the envelope of a mail in one write; refusals and losses mean the same as without."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from email.message import EmailMessage

import pytest

from onceward.integrations.smtp.client import Relay, Smtp
from onceward.services.outcome import Accepted, Refused, Unknown, Unreachable

END = b"\r\n.\r\n"


class ScriptedRelay:
    """A relay with scripted answers. It keeps what arrived together."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.mails: list[bytes] = []
        self.connections = 0
        self.replies: dict[bytes, bytes] = {}
        """The reply to a command, by its first four letters. `b""`: close instead."""
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        writer.write(b"220 relay\r\n")
        pending, in_mail = b"", False
        while data := await reader.read(65536):
            self.writes.append(data)
            pending += data
            # An empty mail is a dot on the first line.
            while (end := (b"\r\n" + pending).find(END) if in_mail else pending.find(b"\r\n")) >= 0:
                item, pending = pending[:end], pending[end + (3 if in_mail else 2) :]
                command = b"MAIL CONTENT" if in_mail else item[:4].upper()
                reply = self.replies.get(command, self._default(command))
                if in_mail and item:
                    self.mails.append(item)
                in_mail = command == b"DATA" and reply.startswith(b"354")
                if not reply:
                    writer.close()
                    return
                writer.write(reply)

    @staticmethod
    def _default(command: bytes) -> bytes:
        return {b"EHLO": b"250-relay\r\n250 PIPELINING\r\n", b"DATA": b"354 go\r\n"}.get(command, b"250 2.0.0 ok\r\n")

    async def say(self, line: bytes) -> None:
        """Send a line that no command asked for, and close."""
        self._writers[-1].write(line)
        self._writers[-1].close()
        await asyncio.sleep(0.02)


@pytest.fixture
async def relay() -> AsyncGenerator[ScriptedRelay]:
    relay = ScriptedRelay()
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    yield relay
    server.close()


@pytest.fixture
async def smtp(relay: ScriptedRelay) -> AsyncGenerator[Smtp]:
    smtp = Smtp(Relay("127.0.0.1", relay.port, encryption="none", timeout_s=0.5))
    yield smtp
    with contextlib.suppress(OSError):
        await smtp.aclose()


async def send(smtp: Smtp, *, to: str = "ada@example.com"):
    message = EmailMessage()
    message["Subject"] = "Your tickets"
    message.set_content(".a line that starts with a dot\n")
    async with smtp.turn() as failure:
        return failure or await smtp.send(message, key="m:1", sender="shop@example.com", to=to)


async def test_a_mail_on_a_kept_connection_is_two_writes(smtp: Smtp, relay: ScriptedRelay) -> None:
    assert isinstance(await send(smtp), Accepted)
    relay.writes.clear()
    assert isinstance(await send(smtp), Accepted)
    envelope, content = relay.writes
    assert envelope == b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<ada@example.com>\r\nDATA\r\n"
    assert content.endswith(b"\r\n..a line that starts with a dot\r\n.\r\n")
    assert relay.connections == 1


async def test_a_refused_recipient_leaves_a_connection_that_works_and_sends_nothing(
    smtp: Smtp, relay: ScriptedRelay
) -> None:
    for to_data in (b"354 go\r\n", b"503 5.5.1 no recipient\r\n"):
        relay.replies = {b"RCPT": b"550 5.1.1 no such user\r\n", b"DATA": to_data, b"MAIL CONTENT": b"554 none\r\n"}
        assert await send(smtp) == Refused(
            "relay refused the recipient (550 5.1.1)", permanent=True, recipient=True, detail={"undeliverable": "5.1.1"}
        )
    assert relay.mails == []
    relay.replies = {}
    assert isinstance(await send(smtp), Accepted)
    assert relay.connections == 1
    assert len(relay.mails) == 1


@pytest.mark.parametrize("lost_at", [b"MAIL", b"RCPT", b"DATA"])
async def test_a_connection_lost_before_the_content_has_sent_nothing(
    smtp: Smtp, relay: ScriptedRelay, lost_at: bytes
) -> None:
    relay.replies = {lost_at: b""}
    assert isinstance(await send(smtp), Unreachable)
    assert relay.mails == []


@pytest.mark.parametrize("reply", [b"", b"nonsense\r\n"])
async def test_a_connection_lost_after_the_content_is_unknown(smtp: Smtp, relay: ScriptedRelay, reply: bytes) -> None:
    relay.replies = {b"MAIL CONTENT": reply}
    assert isinstance(await send(smtp), Unknown)
    assert len(relay.mails) == 1
    relay.replies = {}
    assert isinstance(await send(smtp), Accepted)
    assert relay.connections == 2, "a connection with an unknown outcome is not used again"


async def test_a_farewell_between_two_mails_does_not_answer_the_next_one(smtp: Smtp, relay: ScriptedRelay) -> None:
    assert isinstance(await send(smtp), Accepted)
    await relay.say(b"421 4.4.2 idle for too long\r\n")
    assert isinstance(await send(smtp), Accepted)
    assert relay.connections == 2
    assert len(relay.mails) == 2


@pytest.mark.parametrize(
    "address", ["ada@example.com>\r\nRCPT TO:<eve@example.com", "ada@example.com\nDATA", "ada@\u00e9xample.com"]
)
async def test_an_address_that_smtp_cannot_carry_is_refused(smtp: Smtp, relay: ScriptedRelay, address: str) -> None:
    outcome = await send(smtp, to=address)
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert "ada" not in outcome.reason
    assert not any(b"RCPT" in each or b"eve@" in each for each in relay.writes)
