"""Why a connection to PostgreSQL failed, and what to do about it."""

from __future__ import annotations

import socket
from typing import NamedTuple

import asyncpg

from onceward.settings.environment import PREFIX

URL = f"{PREFIX}DATABASE_URL"


class Refusal(NamedTuple):
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.remedy}"


def explain_refusal(error: BaseException) -> Refusal:
    """Return the reason of a failed connection, and what to do."""
    match error:
        case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
            return Refusal(str(error), f"correct the user and password in {URL}, or let pg_hba.conf admit this host")
        case asyncpg.InvalidCatalogNameError():
            return Refusal(str(error), f"create the database (`createdb`), or correct its name in {URL}")
        case asyncpg.TooManyConnectionsError():
            remedy = f"set {PREFIX}CONNECTIONS_MAX on all nodes to what they may use together, or raise max_connections"
            return Refusal(str(error), remedy)
        case asyncpg.InsufficientPrivilegeError():
            return Refusal(str(error), "run as the database's owner: `grant connect on database ... to ...`")
        case socket.gaierror():
            return Refusal("the host name cannot be resolved", f"correct the host in {URL}")
        case TimeoutError():
            return Refusal("no response in time", "check the host, the port and the firewall")
        case OSError():
            return Refusal(
                "no server is listening at this address",
                f"start PostgreSQL, or correct the host and port in {URL}",
            )
        case _:
            return Refusal(f"{type(error).__name__}: {error}", f"correct {URL}")
