"""What may be registered as a URL to call."""

import pytest

from onceward.http import AddressRefused, HostUnreachable, UrlRefused, check_url, parse_url


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/hook", "scheme"),
        ("ftp://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://example.com:70/", "scheme"),
        ("/relative", "scheme"),
        ("https:///nohost", "host|read"),
        ("https://user:secret@example.com/", "user name or password"),
        ("https://user@example.com/", "user name or password"),
        ("https://example.com:22/", "port 22"),
        ("https://example.com:25/", "port 25"),
        ("https://example.com:6379/", "port 6379"),
        ("https://example.com:99999/", "not valid"),
        ("https://exam ple.com/", "space"),
        ("https://example.com/\r\nX-Evil: 1", "space or control"),
        ("https://example.com/" + "a" * 3000, "characters"),
        ("https://[::1/", "not valid"),
    ],
)
def test_a_url_that_breaks_a_rule_is_refused_with_the_rule(url: str, why: str) -> None:
    with pytest.raises(UrlRefused, match=why):
        parse_url(url)


def test_a_refusal_never_repeats_a_secret_of_the_url() -> None:
    with pytest.raises(UrlRefused) as caught:
        parse_url("https://user:hunter2@example.com/?token=s3cret")
    assert "hunter2" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


async def test_a_name_outside_ascii_is_called_by_its_punycode(scripted) -> None:
    checked = await check_url("https://bücher.example/hook", resolver=scripted(["93.184.216.34"]))
    assert checked.host == "xn--bcher-kva.example"
    assert str(checked) == "https://xn--bcher-kva.example/hook"
    assert checked.addresses == ("93.184.216.34",)


async def test_one_bad_address_among_good_ones_refuses_the_name(scripted) -> None:
    with pytest.raises(AddressRefused, match=r"shop\.example"):
        await check_url("https://shop.example/", resolver=scripted(["93.184.216.34", "10.0.0.5"]))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "１２７.0.0.1",
        "localhost",
    ],
)
async def test_every_spelling_of_loopback_is_refused(host: str) -> None:
    with pytest.raises((UrlRefused, HostUnreachable)):
        await check_url(f"https://{host}/")


async def test_a_name_without_an_address_is_unreachable() -> None:
    with pytest.raises(HostUnreachable, match="resolve"):
        await check_url("https://nothing.invalid/")


async def test_plain_http_is_for_loopback_in_development_only(scripted) -> None:
    checked = await check_url("http://127.0.0.1:8123/hook", allow_loopback_http=True)
    assert checked.port == 8123
    with pytest.raises(UrlRefused, match="loopback only"):
        await check_url("http://shop.example/", allow_loopback_http=True, resolver=scripted(["93.184.216.34"]))
    with pytest.raises(UrlRefused, match="scheme"):
        await check_url("http://127.0.0.1:8123/hook")
