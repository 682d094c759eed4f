"""Files of the file store go with a mail; a missing, huge or ill-named one is an error that says so."""

from __future__ import annotations

from collections.abc import Callable
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from onceward.messages import Attachment, Sender, SendingOptions
from onceward.messages.attachments import MAX_BYTES
from onceward.messages.channels import FolderChannel
from onceward.services import Files
from tests.messages.conftest import SENDER, Office

PDF = Attachment(path="orders/1/ticket.pdf", name="Ticket 日本.pdf", content_type="application/pdf")
LOGO = Attachment(path="brand/logo.png", name="logo.png", content_type="image/png", inline="logo")


def mails_in(folder: Path) -> list[Path]:
    return list(folder.glob("*.eml"))


async def files_with(**contents: bytes) -> Files:
    files = Files.in_memory()
    for path, content in contents.items():
        await files.put(path, content, content_type="application/octet-stream")
    return files


def install(office: Office, channel: Any, files: Files) -> None:
    sender = Sender(office.db, [channel], office.engine.templates, options=SendingOptions(), files=files)
    sender.install(office.app.registry)


async def test_a_mail_carries_its_attachment_and_its_inline_image(office: Callable[..., Any], tmp_path: Path) -> None:
    shop = await office()
    files = await files_with(**{PDF.path: b"%PDF-1.7", LOGO.path: b"\x89PNG"})
    install(shop, FolderChannel(tmp_path, sender=SENDER), files)
    await shop.start_worker()
    id = await shop.send(attachments=[PDF, LOGO])
    assert (await shop.until(id))["status"] == "success"

    [written] = mails_in(tmp_path)
    mail = message_from_bytes(written.read_bytes(), policy=policy.default)
    [attached] = mail.iter_attachments()
    assert (attached.get_filename(), attached.get_content_type()) == ("Ticket 日本.pdf", "application/pdf")
    assert attached.get_content() == b"%PDF-1.7"
    [image] = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    assert image["Content-ID"] == "<logo>"
    assert image.get_content() == b"\x89PNG"
    assert "Ada" in mail.get_body(("plain",)).get_content()
    assert "Ada" in mail.get_body(("html",)).get_content()


async def test_a_mail_over_smtp_and_over_brevo_carries_its_attachment(office: Callable[..., Any]) -> None:
    shop = await office()
    files = await files_with(**{PDF.path: b"%PDF-1.7"})
    for n, channel in enumerate((shop.wires.smtp, shop.wires.brevo)):
        install(shop, channel, files)
        worker = await shop.start_worker()
        id = await shop.send(key=f"k{n}", attachments=[PDF])
        assert (await shop.until(id))["status"] == "success"
        await worker.stop()
    [attached] = shop.sims.smtp.mails[0].message.iter_attachments()
    assert attached.get_content() == b"%PDF-1.7"
    assert shop.sims.brevo.received[-1].json["attachment"] == [{"name": "Ticket 日本.pdf", "content": "JVBERi0xLjc="}]


async def test_a_missing_file_is_a_permanent_error_that_names_it(office: Callable[..., Any], tmp_path: Path) -> None:
    shop = await office()
    install(shop, FolderChannel(tmp_path, sender=SENDER), await files_with())
    await shop.start_worker()
    id = await shop.send(attachments=[PDF])
    assert (await shop.until(id))["status"] in ("failed", "dead_letter")
    error = await shop.db.fetchval("select error from onceward.attempts where work_id = $1", id)
    assert "is not in the file store" in error["message"]
    assert not mails_in(tmp_path)


async def test_attachments_that_are_too_large_together_are_refused(office: Callable[..., Any], tmp_path: Path) -> None:
    shop = await office()
    files = await files_with(**{PDF.path: b"x" * (MAX_BYTES // 2 + 1)})
    install(shop, FolderChannel(tmp_path, sender=SENDER), files)
    await shop.start_worker()
    id = await shop.send(attachments=[PDF, PDF])
    assert (await shop.until(id))["status"] in ("failed", "dead_letter")
    error = await shop.db.fetchval("select error from onceward.attempts where work_id = $1", id)
    assert "more than 10 MiB" in error["message"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"path": "../../etc/passwd"}, "path of the file store"),
        ({"path": ""}, "path of the file store"),
        ({"name": "a/b"}, "without /"),
        ({"name": "evil\r\nBcc: x"}, "attachment name"),
        ({"content_type": "text/plain; x=1\r\nBcc: x"}, "content_type"),
        ({"inline": "a b>"}, "inline"),
    ],
)
def test_a_hostile_attachment_is_refused_when_it_is_created(wrong: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Attachment(**{"path": "a", "name": "a", "content_type": "a/b", **wrong})


async def test_a_channel_without_attachments_refuses_them(office: Callable[..., Any]) -> None:
    shop = await office()
    with pytest.raises(ValueError, match="channel sms cannot carry attachments"):
        await shop.send(to="+15005550001", channel="sms", attachments=[PDF])
    with pytest.raises(ValueError, match="21 attachments; the maximum is 20"):
        await shop.send(attachments=[PDF] * 21)
    with pytest.raises(ValueError, match="two inline attachments have the same name"):
        await shop.send(attachments=[LOGO, LOGO])
