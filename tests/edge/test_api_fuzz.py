"""Made-up requests to every operation of the engine and of the apps get no 5xx and no status that is not documented.

`make api-fuzz` does the same for minutes.
"""

from __future__ import annotations

import random

import requests

from tests.edge.shipped import Shipped
from tools.api_fuzz import ApiFuzz, callers

CALLS = 20
"""The least number of calls that the time must be enough for, also on a busy machine; usually it is enough for some hundred."""


def test_made_up_requests_get_no_5xx_and_no_undocumented_status(
    server: Shipped, owner_key: str, admin_key: str
) -> None:
    base = f"http://127.0.0.1:{server.port}"
    document = requests.get(f"{base}/api/v1/openapi.json", timeout=60).json()
    owner, admin = (key.rpartition(" ")[2] for key in (owner_key, admin_key))
    everybody = callers(owner=owner, admin=admin, organization="edge")
    seed = random.randrange(1 << 30)  # other operations in each run: the time is not enough for all
    fuzz = ApiFuzz(base, document, everybody, seed)
    fuzz(seconds=4, examples=2, callers_each=1)
    assert fuzz.calls > CALLS, fuzz.statuses
    assert not fuzz.findings, "\n".join([f"seed {seed}", *map(str, fuzz.findings.values())])
