"""Webhook bodies of real size: an event as Stripe sends it (about 2 KB) and one with a pull request of GitHub (about 20 KB).

Both have the envelope of Stripe, so that one signature scheme serves every server. A body differs from the others in its id
only, so the load generator keeps the rest once.
"""

from __future__ import annotations

from typing import Any

import orjson

MARK = "000000000000000000000000"
"""Stands for the id while a body is created. `template` cuts the body at this place."""

CARD: dict[str, Any] = {
    "brand": "visa",
    "checks": {"address_line1_check": None, "address_postal_code_check": "pass", "cvc_check": "pass"},
    "country": "DE",
    "exp_month": 8,
    "exp_year": 2028,
    "fingerprint": "Xt5EWLLDS7FJjR1c",
    "funding": "credit",
    "last4": "4242",
    "network": "visa",
    "three_d_secure": None,
    "wallet": None,
}
CHARGE: dict[str, Any] = {
    "id": "ch_3MmlLrLkdIwHu7ix0snN0B15",
    "object": "charge",
    "amount": 109900,
    "amount_captured": 109900,
    "amount_refunded": 0,
    "balance_transaction": "txn_3MmlLrLkdIwHu7ix0uke3Ezy",
    "billing_details": {
        "address": {"city": "Köln", "country": "DE", "line1": "Domkloster 4", "postal_code": "50667", "state": None},
        "email": "anna.schmidt@example.com",
        "name": "Anna Schmidt",
        "phone": None,
    },
    "calculated_statement_descriptor": "EXAMPLE TICKETS",
    "captured": True,
    "created": 1763300000,
    "currency": "eur",
    "customer": "cus_NffrFeUfNV2Hib",
    "description": "2 places, row 7",
    "disputed": False,
    "invoice": None,
    "metadata": {"order": "184467", "event": "c0ffee00-1111-4222-8333-444455556666", "places": "A-7-12,A-7-13"},
    "outcome": {
        "network_status": "approved_by_network",
        "reason": None,
        "risk_level": "normal",
        "risk_score": 32,
        "seller_message": "Payment complete.",
        "type": "authorized",
    },
    "paid": True,
    "payment_intent": "pi_3MmlLrLkdIwHu7ix0Xk5kZ1b",
    "payment_method": "pm_1MmlLrLkdIwHu7ixIJwEWSNR",
    "payment_method_details": {"card": CARD, "type": "card"},
    "receipt_url": "https://pay.stripe.com/receipts/payment/CAcaFwoVYWNjdF8xTTJKVGtMa2RJd0h1N2l4KOvG06AGMgZfBXyr1aw6LBa9vaaSRWU96d8qBwz9z2J_CObiV_H2",
    "refunded": False,
    "source_transfer": None,
    "status": "succeeded",
    "transfer_data": None,
}


def _user(name: str, id: int) -> dict[str, Any]:
    api = f"https://api.github.com/users/{name}"
    links = (
        "followers",
        "following{/other_user}",
        "gists{/gist_id}",
        "starred{/owner}{/repo}",
        "subscriptions",
        "orgs",
    )
    return {
        "login": name,
        "id": id,
        "node_id": f"MDQ6VXNlcj{id}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{id}?v=4",
        "url": api,
        "html_url": f"https://github.com/{name}",
        **{f"{link.split('{')[0]}_url": f"{api}/{link}" for link in links},
        "type": "User",
        "site_admin": False,
    }


def _repository(owner: str, name: str, id: int) -> dict[str, Any]:
    api = f"https://api.github.com/repos/{owner}/{name}"
    links = [
        "forks",
        "keys{/key_id}",
        "collaborators{/collaborator}",
        "teams",
        "hooks",
        "issues/events{/number}",
        "events",
        "assignees{/user}",
        "branches{/branch}",
        "tags",
        "git/blobs{/sha}",
        "git/tags{/sha}",
        "git/refs{/sha}",
        "git/trees{/sha}",
        "statuses/{sha}",
        "languages",
        "stargazers",
        "contributors",
        "subscribers",
        "subscription",
        "commits{/sha}",
        "git/commits{/sha}",
        "comments{/number}",
        "issues/comments{/number}",
        "contents/{+path}",
        "compare/{base}...{head}",
        "merges",
        "{archive_format}{/ref}",
        "downloads",
        "issues{/number}",
        "pulls{/number}",
        "milestones{/number}",
        "notifications{?since,all,participating}",
        "labels{/name}",
        "releases{/id}",
        "deployments",
    ]
    return {
        "id": id,
        "node_id": f"R_kgDO{id}",
        "name": name,
        "full_name": f"{owner}/{name}",
        "private": False,
        "owner": _user(owner, id // 7),
        "html_url": f"https://github.com/{owner}/{name}",
        "description": "Everything that must follow from an event, exactly once",
        **{f"link_{n}_url": f"{api}/{link}" for n, link in enumerate(links)},
        "created_at": "2024-02-11T09:12:44Z",
        "pushed_at": "2026-11-16T21:40:03Z",
        "size": 48211,
        "stargazers_count": 1873,
        "language": "Python",
        "has_issues": True,
        "forks_count": 94,
        "open_issues_count": 37,
        "license": {"key": "apache-2.0", "name": "Apache License 2.0", "spdx_id": "Apache-2.0"},
        "topics": ["postgresql", "webhooks", "exactly-once", "jobs"],
        "default_branch": "main",
    }


def _pull_request() -> dict[str, Any]:
    owner, contributor = _user("example-tools", 583231), _user("octo-contributor", 9919482)
    base, fork = _repository("example-tools", "ledgerly", 1296269), _repository("octo-contributor", "ledgerly", 1300192)
    text = "\n".join(
        f"{n}. Move `module_{n}` below its feature; its callers import `package.feature_{n}` (see #{n * 13})."
        for n in range(1, 20)
    )
    return {
        "url": "https://api.github.com/repos/example-tools/ledgerly/pulls/1347",
        "id": 1934081,
        "number": 1347,
        "state": "open",
        "title": "Move every module below the feature that owns it",
        "user": contributor,
        "body": text,
        "created_at": "2026-11-16T20:11:09Z",
        "merged_at": None,
        "merge_commit_sha": "e5bd3914e2e596debea16f433f57875b5b90bcd6",
        "assignees": [owner, contributor],
        "requested_reviewers": [owner, _user("second-reviewer", 2710114)],
        "labels": [{"id": n, "name": f"area/{n}", "color": "f29513", "default": False} for n in range(8)],
        "head": {"label": "octo-contributor:rooms", "sha": "6dcb09b5b57875f334f61aebed695e2e4193db5e", "repo": fork},
        "base": {"label": "example-tools:main", "sha": "c5b97d5ae6c19d5c5df71a34c7fbeeda2479ccbc", "repo": base},
        "commits": 14,
        "additions": 2381,
        "deletions": 1979,
        "changed_files": 61,
        "repository": base,
        "sender": contributor,
    }


OBJECTS = {"2k": lambda: CHARGE, "20k": _pull_request}
INDENTED = {"2k": orjson.OPT_INDENT_2, "20k": 0}
"""Stripe indents its JSON, GitHub does not."""


def template(kind: str, type: str, created: int) -> tuple[bytes, bytes]:
    """Return a body of the kind as the bytes before and after its id."""
    event = {
        "id": f"evt_{MARK}",
        "object": "event",
        "api_version": "2025-10-29.clover",
        "created": created,
        "type": type,
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": "req_9YzVqXMuP3Tqkd", "idempotency_key": "6f1c1f0e-31a5-4a8e-bb3a-7b8f4a3f3a1e"},
        "data": {"object": OBJECTS[kind]()},
    }
    before, _, after = orjson.dumps(event, option=INDENTED[kind]).partition(MARK.encode())
    return before, after
