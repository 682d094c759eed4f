"""Read a database URL: the servers it names, and its other parts as libpq names them.

`postgresql://user:password@a:5432,b:5432/name?target_session_attrs=read-write` names two servers, of which one accepts
writes. `urllib` cannot read the ports of such a URL, and refuses it if a server after the first has an IPv6 address.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PORT = "5432"
PRIMARY = ("read-write", "primary")


@dataclass(frozen=True, slots=True)
class Server:
    """The address of one PostgreSQL server. `host` may be the directory of a socket."""

    host: str
    port: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split_servers(url: str) -> tuple[str, str]:
    """Return a URL without its servers, which `urllib` and asyncpg can read, and the text of the servers."""
    scheme, mark, rest = url.partition("://")
    end = min((at for sign in "/?#" if (at := rest.find(sign)) >= 0), default=len(rest))
    login, at_sign, servers = rest[:end].rpartition("@")
    return f"{scheme}{mark}{login}{at_sign}{rest[end:]}", servers


def servers_of(url: str) -> list[Server]:
    """Return the servers that a URL names, in its order. Raises ValueError for a port that is not a number."""
    without, listed = split_servers(url)
    query = dict(parse_qsl(urlsplit(without).query))
    named = [_server(part) for part in listed.split(",") if part]
    if "host" in query:
        named = [(host, "") for host in query["host"].split(",")]
    ports = query.get("port", "").split(",")
    if len(ports) not in (1, max(1, len(named))):
        raise ValueError(f"the URL names {len(named)} servers and {len(ports)} ports")
    servers = [
        Server(host, port or (ports[i] if len(ports) > 1 else ports[0]) or DEFAULT_PORT)
        for i, (host, port) in enumerate(named or [("localhost", "")])
    ]
    for server in servers:
        if not server.port.isdigit():
            raise ValueError(f"the port {server.port!r} is not a number")
    return servers


def _server(text: str) -> tuple[str, str]:
    """Split `host:port`, `[ipv6]:port`, or either without a port."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = text.partition(":")
    return unquote(host), port


def selects_primary(url: str) -> bool:
    """Return whether the URL says that only the server that accepts writes may be used."""
    return dict(parse_qsl(urlsplit(split_servers(url)[0]).query)).get("target_session_attrs") in PRIMARY


def libpq_variables(url: str) -> dict[str, str]:
    """Return a database URL as libpq variables. Other users of the machine can read arguments, but not variables."""
    without, named = split_servers(url)
    parts = urlsplit(without)
    query = dict(parse_qsl(parts.query))
    servers = servers_of(url)
    has_host = bool(named) or "host" in query
    has_port = "port" in query or any(port for _, port in map(_server, named.split(",")))
    variables = {
        "PGHOST": ",".join(server.host for server in servers) if has_host else None,
        "PGPORT": ",".join(server.port for server in servers) if has_port else None,
        "PGUSER": query.pop("user", None) or (unquote(parts.username) if parts.username else None),
        "PGPASSWORD": query.pop("password", None) or (unquote(parts.password) if parts.password else None),
        "PGDATABASE": query.pop("dbname", None) or unquote(parts.path.lstrip("/")) or "postgres",
        "PGTARGETSESSIONATTRS": query.pop("target_session_attrs", None),
        **{f"PG{name.upper()}": value for name, value in query.items() if name.startswith("ssl")},
    }
    return {name: value for name, value in variables.items() if value}
