"""The IP addresses that the guarded client may connect to.

The list is our own: `ipaddress.is_global` returns true for NAT64, multicast, site-local and IPv4-compatible
addresses, and each of them can lead into an internal network.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from .errors import AddressRefused

IPAddress = IPv4Address | IPv6Address
IPNetwork = IPv4Network | IPv6Network

_BLOCKED_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("169.254.169.254/32", "cloud metadata"),
        ("169.254.170.2/32", "container metadata"),
        ("100.100.100.200/32", "cloud metadata"),
        ("168.63.129.16/32", "cloud host agent"),
        ("192.0.0.192/32", "cloud metadata"),
        ("0.0.0.0/32", "unspecified"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "AS112 anycast"),
        ("192.52.193.0/24", "multicast tunnelling"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "AS112 anycast"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("240.0.0.0/4", "reserved"),
    )
)

_BLOCKED_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("2001::/32", "Teredo"),
        ("2001:2::/48", "benchmarking"),
        ("2001::/23", "protocol assignments"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("2620:4f:8000::/48", "AS112 anycast"),
        ("3ffe::/16", "retired 6bone"),
        ("3fff::/20", "documentation"),
        ("5f00::/16", "segment routing"),
        ("fd00:ec2::254/128", "cloud metadata"),
        ("fd20:ce::254/128", "cloud metadata"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)

# All public addresses are in this network. Ranges that IANA adds later stay blocked until they are listed here.
_GLOBAL_UNICAST_V6 = IPv6Network("2000::/3")

_LOOPBACK: tuple[IPNetwork, ...] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


def parse(address: str | IPAddress) -> IPAddress:
    """Parse an address as sockets return it, with or without an IPv6 zone (`fe80::1%eth0`)."""
    if not isinstance(address, str):
        return address
    try:
        return ip_address(address.partition("%")[0])
    except ValueError:
        raise AddressRefused(f"{address!r} is not an IP address") from None


def is_loopback(address: str | IPAddress) -> bool:
    ip = parse(address)
    return any(ip in network for network in _LOOPBACK)


def blocked_because(address: str | IPAddress) -> str | None:
    """Return why the address is blocked, or None if it is public."""
    ip = parse(address)
    if isinstance(ip, IPv4Address):
        return next((why for network, why in _BLOCKED_V4 if ip in network), None)
    why = next((why for network, why in _BLOCKED_V6 if ip in network), None)
    if why is None and ip not in _GLOBAL_UNICAST_V6:
        return "reserved"
    return why


def vet(
    address: str | IPAddress, *, allow_loopback: bool = False, allow_networks: Sequence[IPNetwork] = ()
) -> IPAddress:
    """Return the address if the client may connect to it; raise AddressRefused otherwise.

    `allow_networks` is for operators whose receivers are in a private network: it allows exactly these networks.
    """
    ip = parse(address)
    why = blocked_because(ip)
    if why is None:
        return ip
    if allow_loopback and is_loopback(ip):
        return ip
    if any(ip in network for network in allow_networks):
        return ip
    raise AddressRefused(f"address {ip} is not allowed: {why}")
