"""A plain mail says the same to Python's parser as the standard library's own mail, and no value can add a header."""

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onceward.integrations.smtp.session import _address, _as_lines  # pyright: ignore[reportPrivateUsage]
from onceward.messages.plain_mail import PlainMail

ID = "<0123456789abcdef0123456789abcdef01234567@example.com>"
DATE = "Tue, 17 Nov 2026 06:00:00 GMT"

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=120)
ascii_words = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=120)
subjects = (words | ascii_words).map(str.strip).filter(bool)
bodies = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\n .=ü漢\t"), max_size=1200)
addresses = st.sampled_from(
    [
        "a@example.org",
        "Zoë <zoe@example.org>",
        '"Doe, Jo" <jo@example.org>',
        "x" * 60 + "@example.org",
        "a.b+c@mail.example.org",
    ]
)


def standard(to: str, subject: str, text: str, html: str) -> Any:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = "Shop <shop@example.com>", to, subject
    mail["Auto-Submitted"], mail["Message-ID"], mail["Date"] = "auto-generated", ID, DATE
    mail.set_content(text)
    mail.add_alternative(html, subtype="html")
    return message_from_bytes(mail.as_bytes(), policy=policy.default)


def plain(to: str, subject: str, text: str, html: str) -> bytes:
    headers = (
        ("From", "Shop <shop@example.com>"),
        ("To", to),
        ("Subject", subject),
        ("Auto-Submitted", "auto-generated"),
    )
    return PlainMail(headers, text, html).as_bytes(message_id=ID, date=DATE)


@given(to=addresses, subject=subjects, text=bodies, html=bodies)
@example(to="a@example.org", subject="=?utf-8?q?not_encoded?=", text="", html="\n")
@example(to="a@example.org", subject="x" * 200, text=".\n..\n.", html="--=_\nFrom me\n" + "y" * 2000)
@example(to="a@example.org", subject="Confirmação de compra " * 5, text="é" * 300, html="漢字" * 300 + " \n")
@settings(max_examples=300, deadline=None)
def test_a_plain_mail_reads_like_one_of_the_standard_library(to: str, subject: str, text: str, html: str) -> None:
    written = plain(to, subject, text, html)
    ours: Any = message_from_bytes(written, policy=policy.default)
    theirs = standard(to, subject, text, html)
    for name in ("From", "To", "Subject", "Auto-Submitted", "Message-ID", "Date", "MIME-Version"):
        assert ours.get_all(name) == theirs.get_all(name), name
    assert ours.get_content_type() == "multipart/alternative"
    assert not ours.defects
    for part, other in zip(ours.iter_parts(), theirs.iter_parts(), strict=True):
        assert part.get_content_type() == other.get_content_type()
        assert part.get_content_charset() == "utf-8"
        assert part.get_payload(decode=True) == "".join(f"{line}\n" for line in _lines(other)).encode()
        assert not part.defects
    assert written.isascii()
    assert max(map(len, written.splitlines())) <= 998


def _lines(part: Any) -> list[str]:
    return [line.decode() for line in part.get_payload(decode=True).splitlines()] or [""]


@pytest.mark.parametrize("name", ["From", "To", "Subject", "List-Unsubscribe"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_value_with_a_line_break_is_refused(name: str, end: str) -> None:
    with pytest.raises(ValueError):
        PlainMail(((name, f"a@example.org{end}Bcc: eve@example.org"),), "", "").as_bytes(message_id=ID, date=DATE)


def test_each_mail_has_a_boundary_of_its_own() -> None:
    mails = [message_from_bytes(plain("a@example.org", "x", "", "")) for _ in range(3)]
    assert len({mail.get_boundary() for mail in mails}) == 3


@given(st.lists(st.sampled_from([b".", b"a", b"\n", b"\r", b"\r\n", b"\n.", b"--"]), max_size=40).map(b"".join))
@settings(max_examples=300)
def test_lines_end_as_in_smtp_and_a_leading_dot_is_doubled(content: bytes) -> None:
    lines = content.splitlines() or [b""]
    assert _as_lines(content) == b"".join((b"." if line.startswith(b".") else b"") + line + b"\r\n" for line in lines)


@pytest.mark.parametrize("address", ["a@example.org>\r\nRCPT TO:<eve@example.org", "a@example.org\nDATA"])
def test_an_address_cannot_add_a_command(address: str) -> None:
    try:
        written = _address(address)
    except ValueError:
        return
    assert b"\n" not in written
    assert b"\r" not in written
