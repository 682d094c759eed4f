"""Mails have the same bytes as those of the standard library, except for the boundary."""

from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest

from onceward.messages.mail import mail_bytes, new_mail


def fill(message: EmailMessage, *, sender: str, subject: str) -> EmailMessage:
    message["From"] = sender
    message["To"] = "Zoë <zoe@example.com>"
    message["Subject"] = subject
    message["Auto-Submitted"] = "auto-generated"
    message.set_content("Grüße\n")
    message.add_alternative("<p>Grüße</p>", subtype="html")
    message.add_attachment(b"\x00\x01", "application", "pdf", filename="Rechnung für Zoë.pdf")
    return message


def without_boundaries(content: bytes) -> bytes:
    for part in message_from_bytes(content, policy=policy.default).walk():
        if (boundary := part.get_boundary()) is not None:
            content = content.replace(boundary.encode(), b"boundary")
    return content.replace(b";\n boundary=", b"; boundary=")  # a shorter boundary may fit on the line


@pytest.mark.parametrize("sender", ["Shop <shop@example.com>", "Müller <a@example.com>"])
@pytest.mark.parametrize("subject", ["Your tickets", "Ihre Plätze " * 20])
def test_a_mail_has_the_bytes_of_the_standard_library(sender: str, subject: str) -> None:
    ours = mail_bytes(fill(new_mail(), sender=sender, subject=subject))
    theirs = fill(EmailMessage(), sender=sender, subject=subject).as_bytes()
    assert without_boundaries(ours) == without_boundaries(theirs)
    assert message_from_bytes(ours, policy=policy.default)["From"] == sender


def test_each_mail_has_a_boundary_of_its_own() -> None:
    mails = [mail_bytes(fill(new_mail(), sender="a@example.com", subject="x")) for _ in range(3)]
    assert len({message_from_bytes(each).get_boundary() for each in mails}) == 3


def test_a_header_with_a_line_break_is_refused() -> None:
    for name in ("From", "Subject"):
        with pytest.raises(ValueError):
            new_mail()[name] = "x\r\nBcc: eve@example.com"
