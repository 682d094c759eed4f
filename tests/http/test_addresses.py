"""The block list, address by address, and against Python's own idea of what is global."""

from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward.http import AddressRefused, vet
from onceward.http.addresses import blocked_because

BLOCKED = [
    ("0.0.0.0", "unspecified"),
    ("0.1.2.3", "this network"),
    ("10.0.0.1", "private"),
    ("100.64.0.1", "carrier-grade NAT"),
    ("100.127.255.255", "carrier-grade NAT"),
    ("100.100.100.200", "metadata"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("168.63.129.16", "host agent"),
    ("169.254.169.254", "metadata"),
    ("169.254.1.1", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.2.1", "documentation"),
    ("192.88.99.1", "6to4"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmarking"),
    ("198.51.100.7", "documentation"),
    ("203.0.113.7", "documentation"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::7f00:1", "IPv4-compatible"),
    ("::ffff:127.0.0.1", "IPv4-mapped"),
    ("::ffff:8.8.8.8", "IPv4-mapped"),
    ("::ffff:0:7f00:1", "IPv4-translated"),
    ("64:ff9b::7f00:1", "NAT64"),
    ("64:ff9b:1::a00:1", "NAT64"),
    ("100::1", "discard"),
    ("2001::1", "Teredo"),
    ("2001:2::1", "benchmarking"),
    ("2001:10::1", "protocol"),
    ("2001:db8::1", "documentation"),
    ("2002:7f00:1::", "6to4"),
    ("3fff::1", "documentation"),
    ("4000::1", "reserved"),
    ("5f00::1", "segment"),
    ("fc00::1", "private"),
    ("fd00:ec2::254", "metadata"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("fec0::1", "site-local"),
    ("ff02::1", "multicast"),
]


@pytest.mark.parametrize(("address", "why"), BLOCKED)
def test_an_address_that_leads_inside_is_refused_by_name(address: str, why: str) -> None:
    with pytest.raises(AddressRefused, match=why):
        vet(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.0",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.1",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "2a00:1450:4001::1",
        "2001:200::1",
    ],
)
def test_a_public_address_is_dialled(address: str) -> None:
    assert str(vet(address)) == address


def test_loopback_opens_only_when_asked_and_only_loopback() -> None:
    assert str(vet("127.0.0.1", allow_loopback=True)) == "127.0.0.1"
    assert str(vet("::1", allow_loopback=True)) == "::1"
    for address in ("10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "0.0.0.0"):
        with pytest.raises(AddressRefused):
            vet(address, allow_loopback=True)


def test_an_operator_opens_exactly_the_networks_in_the_setting() -> None:
    allowed = [ip_network("10.2.0.0/16")]
    assert str(vet("10.2.3.4", allow_networks=allowed)) == "10.2.3.4"
    with pytest.raises(AddressRefused):
        vet("10.3.0.1", allow_networks=allowed)


def test_text_that_is_not_an_address_is_refused() -> None:
    with pytest.raises(AddressRefused):
        vet("localhost")


@given(st.integers(0, 2**32 - 1))
def test_every_ipv4_address_that_python_calls_not_global_is_blocked(number: int) -> None:
    ip = IPv4Address(number)
    if not ip.is_global or ip.is_multicast:
        assert blocked_because(ip) is not None


@given(st.integers(0, 2**128 - 1))
def test_every_ipv6_address_that_python_calls_not_global_is_blocked(number: int) -> None:
    ip = IPv6Address(number)
    if not ip.is_global or ip.is_multicast or ip.is_site_local:
        assert blocked_because(ip) is not None
