"""Call every operation of the HTTP API with made-up requests: `make api-fuzz ARGS="--minutes 30 --seed 7"`.

schemathesis makes requests that fit the OpenAPI document and requests that do not. Every operation of the engine and of
the apps is called without a credential, with the key of an owner, and with the key of an administrator with and without
an organization. A response with a status of 500 or more fails the run, and so does one below `/api/` with a status that
the document does not name. Ids of earlier responses are used again, so that requests reach what exists.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import requests
from requests.adapters import HTTPAdapter

sys.path.insert(0, str(Path(__file__).parents[1]))

SAMPLE = 2000
"""The maximum number of characters of a failing request in the report."""
MOST_KNOWN = 30
"""How many values of one name are kept for later requests."""
WAIT_S = 60
PROXY = "127.0.0.200"
"""What `Shipped` sets as the trusted proxy."""


@dataclass(frozen=True)
class Caller:
    """Who calls, and the headers that say so."""

    name: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class FromProxy(HTTPAdapter):
    """Sends from the address of a proxy that the server trusts (`ONCEWARD_TRUSTED_PROXIES`)."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options, source_address=(PROXY, 0))


@dataclass(frozen=True)
class Finding:
    """A response that must not be. `request` is the command that repeats it."""

    caller: str
    operation: str
    status: int
    request: str
    response: str

    def __str__(self) -> str:
        return f"{self.status} {self.operation} as {self.caller}\n  {self.request[:SAMPLE]}\n  {self.response[:500]}"


@dataclass
class ApiFuzz:
    """Calls the operations of one server. `findings` has one entry for each operation, status and caller."""

    url: str
    document: dict[str, Any]
    callers: tuple[Caller, ...]
    seed: int
    calls: int = 0
    statuses: dict[int, int] = field(default_factory=dict[int, int])
    findings: dict[tuple[str, int, str], Finding] = field(default_factory=dict[tuple[str, int, str], Finding])
    _known: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])

    def __post_init__(self) -> None:
        import schemathesis

        self._random = random.Random(self.seed)
        self._session = requests.Session()
        self._session.mount("http://", FromProxy())
        schema = schemathesis.openapi.from_dict(self.document)
        self._operations: list[Any] = [cast(Any, each).ok() for each in schema.get_all_operations()]

    def __call__(self, *, seconds: float, examples: int, callers_each: int | None = None) -> None:
        """Call all operations in a random order until the time is up, each with this many requests of every caller, or
        of some callers."""
        end = time.monotonic() + seconds
        while True:
            self._random.shuffle(self._operations)
            for operation in self._operations:
                for caller in self._random.sample(self.callers, callers_each or len(self.callers)):
                    self._call(operation, caller, examples)
                    if time.monotonic() > end:
                        return

    def _call(self, operation: Any, caller: Caller, examples: int) -> None:
        from hypothesis import HealthCheck, Phase, given, seed, settings
        from hypothesis.errors import HypothesisException
        from schemathesis import GenerationMode

        mode = self._random.choice([GenerationMode.POSITIVE, GenerationMode.POSITIVE, GenerationMode.NEGATIVE])

        @seed(self._random.getrandbits(32))
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=cast(Any, list(HealthCheck)),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            self._reuse_ids(case)
            self._judge(operation, caller, case)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                send()
            except HypothesisException:
                return  # nothing can be wrong with a request that has no input

    def _judge(self, operation: Any, caller: Caller, case: Any) -> None:
        self.calls += 1
        client = f"10.{self.calls >> 16 & 255}.{self.calls >> 8 & 255}.{self.calls & 255}"  # limits count by address
        headers = {**caller.headers, "X-Forwarded-For": client}
        response = case.call(
            base_url=self.url, session=self._session, headers=headers, timeout=WAIT_S, allow_redirects=False
        )
        status = cast(int, response.status_code)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        documented = set(operation.definition.raw["responses"])
        if status >= 500 or (operation.path.startswith("/api/") and str(status) not in documented):
            name = f"{operation.method.upper()} {operation.path}"
            found = Finding(caller.name, name, status, case.as_curl_command(), response.text)
            self.findings.setdefault((name, status, caller.name), found)
        elif status < 300 and response.content and "json" in response.headers.get("content-type", [""])[0]:
            self._learn(operation, response.json())

    def _learn(self, operation: Any, body: Any) -> None:
        """Keep the ids of a response under their names. `id` gets the name that the path uses: `/jobs/{id}`."""
        rows = cast(list[Any], body if isinstance(body, list) else [body])
        for row in rows[:5]:
            if not isinstance(row, dict):
                continue
            for name, value in cast(dict[str, Any], row).items():
                if isinstance(value, dict):
                    self._learn(operation, value)
                elif isinstance(value, str | int) and (name in ("id", "name", "slug") or name.endswith("_id")):
                    known = self._known.setdefault(
                        name if name.endswith("_id") else f"{_collection(operation.path)} {name}", []
                    )
                    if value not in known:
                        known.append(value)
                        del known[:-MOST_KNOWN]

    def _reuse_ids(self, case: Any) -> None:
        """Replace ids in the path, in the query and in the first level of the body by known ones, most of the time."""
        for part in (case.path_parameters, case.query, case.body):
            if isinstance(part, dict):
                given = cast(dict[str, Any], part)
                for name in given:
                    known = self._known.get(name) or self._known.get(f"{_collection(case.path)} {name}")
                    if known and self._random.random() < 0.7:
                        given[name] = self._random.choice(known)


def _collection(path: str) -> str:
    """Return the address up to its first parameter: what `id` stands for there."""
    return path.partition("/{")[0]


def callers(*, owner: str, admin: str, organization: str) -> tuple[Caller, ...]:
    """Return who calls: nobody, an owner, and an administrator with and without an organization, given their keys."""
    return (
        Caller("nobody"),
        Caller("owner", {"Authorization": f"Bearer {owner}"}),
        Caller("administrator", {"Authorization": f"Bearer {admin}"}),
        Caller(
            "administrator for an organization", {"Authorization": f"Bearer {admin}", "X-Organization": organization}
        ),
    )


def main() -> int:
    from onceward.runtime import FEATURES
    from onceward.testing import TestDatabases
    from onceward.testing.databases import TestServer
    from tests.edge.conftest import make_key
    from tests.edge.shipped import Shipped

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on (default 10)")
    parser.add_argument("--seed", type=int, help="the seed of the requests; printed")
    parser.add_argument("--examples", type=int, default=15, help="requests of each kind in a round (default 15)")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 30)
    with TestServer() as server, TestDatabases(server, FEATURES.migrations) as databases:
        url = databases.create()
        shipped = Shipped(url)
        try:
            base = f"http://127.0.0.1:{shipped.port}"
            owner = asyncio.run(make_key(url, "fuzz", "owner")).rpartition(" ")[2]
            admin = asyncio.run(make_key(url, None, "admin")).rpartition(" ")[2]
            document = requests.get(f"{base}/api/v1/openapi.json", timeout=WAIT_S).json()
            everybody = callers(owner=owner, admin=admin, organization="fuzz")
            fuzz = ApiFuzz(base, document, everybody, seed)
            fuzz(seconds=given.minutes * 60, examples=given.examples)
            tracebacks = shipped.tracebacks()
        finally:
            shipped.stop()
    for finding in fuzz.findings.values():
        print(finding)
    for line in tracebacks[:20]:
        print(line[:3000])
    counts = ", ".join(f"{status}: {count}" for status, count in sorted(fuzz.statuses.items()))
    print(f"seed {seed}: {fuzz.calls} calls ({counts}); {len(fuzz.findings)} findings, {len(tracebacks)} tracebacks")
    return 1 if fuzz.findings or tracebacks else 0


if __name__ == "__main__":
    sys.exit(main())
