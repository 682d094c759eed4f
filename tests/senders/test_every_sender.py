"""What must hold for every sender that is only data: its own signature is accepted, and nothing else is."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import orjson
import pytest

from onceward.integration import integrations
from onceward.webhooks.families import Basic, Jwt, StandardWebhooks, Token
from onceward.webhooks.families.signed import Signed
from onceward.webhooks.page import sender_page
from onceward.webhooks.provider import REASONS, Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS
from tests.senders.recipes import FETCHED_BACK, RECIPES
from tests.senders.world import NOW, PUBLIC_URL, SENDERS, first_type, ours, secret_of, sender_named, source, theirs

EACH = pytest.mark.parametrize("name", SENDERS)


def refusal(config: SourceConfig, request: Request, now: float = NOW) -> Rejected | None:
    try:
        sender_named(config.provider).verify(config, request, now)
    except Rejected as rejected:
        return rejected
    return None


def changed(request: Request, **headers: str) -> Request:
    return replace(request, headers={**request.headers, **headers})


def signed_names(name: str) -> set[str]:
    scheme = sender_named(name).verification
    names = set(scheme.signature_headers)
    if isinstance(scheme, Signed):
        names |= {scheme.timestamp, scheme.signed_id_header, *scheme.template.headers} - {""}
    if isinstance(scheme, Token | Jwt) and scheme.header:
        names.add(scheme.header)
    if isinstance(scheme, Basic):
        names.add("authorization")
    return names


def test_every_sender_is_written_a_second_time() -> None:
    assert set(RECIPES) == set(SENDERS)


@EACH
def test_a_genuine_request_is_accepted_and_becomes_an_event_of_its_type(name: str) -> None:
    sender, config = sender_named(name), source(name)
    for type in sender.samples:
        for request in (theirs(name, type), ours(name, type)):
            assert refusal(config, request) is None, type
            assert sender.challenge(config, request) is None
            items = sender.parse(config, request)
            assert [item.type for item in items] == [type]
            assert items[0].payload is not None
            assert sender.data(items[0].payload) is not None
        # One request twice is one event; two samples are two.
        again, other = sender.parse(config, request), sender.parse(config, ours(name, type))
        assert (again[0].event_id == items[0].event_id) != items[0].event_id.startswith("arrival_")
        assert other[0].event_id != items[0].event_id
        assert sender.data(orjson.loads(orjson.dumps(items[0].payload))) == sender.data(items[0].payload)


@EACH
def test_a_changed_request_is_refused(name: str) -> None:
    sender, config = sender_named(name), source(name)
    request = theirs(name, first_type(name))
    if sender.verification.covers_body:
        for position in (1, len(request.body) // 2, len(request.body) - 2):
            body = bytearray(request.body)
            body[position] ^= 1
            refused = refusal(config, replace(request, body=bytes(body)))
            assert refused is not None, "a changed body is accepted"
            assert refused.status in (400, 401)
    for header in signed_names(name) & set(request.headers):
        value = request.headers[header]
        rest = {each: text for each, text in request.headers.items() if each != header}
        for wrong in (replace(request, headers=rest), *_wrong(request, header, value)):
            refused = refusal(config, wrong)
            assert refused is not None, (header, wrong.headers.get(header))
            assert refused.reason in REASONS
            assert 400 <= refused.status < 500
    forged_headers, forged_body = sender.forge(config, dict(request.headers), request.body)
    forged_query = "&".join(f"{parameter.partition('=')[0]}=forged" for parameter in request.query.split("&"))
    forged = replace(request, headers=forged_headers, body=forged_body, query=forged_query if request.query else "")
    assert refusal(config, forged) is not None
    assert refusal(config, replace(request, query="")) is not None or not request.query


def _wrong(request: Request, header: str, value: str) -> list[Request]:
    # The last character of base64 may carry bits that nobody reads, so the change is in the middle.
    middle = len(value) // 2
    other = value[:middle] + ("0" if value[middle] != "0" else "1") + value[middle + 1 :]
    return [changed(request, **{header: each}) for each in (other, "", "=", "!!!", value[::-1], "\xe9" * 8, "x" * 5000)]


@EACH
def test_secrets_rotate_and_a_wrong_or_missing_one_accepts_nothing(name: str) -> None:
    first, second = theirs(name, first_type(name)), theirs(name, first_type(name), which="b")
    both = source(name, "a", "b")
    assert refusal(both, first) is None
    assert refusal(both, second) is None
    for config, request in ((source(name, "b"), first), (source(name, "a"), second)):
        refused = refusal(config, request)
        assert refused is not None
        assert refused.status == 401
        for which in ("a", "b"):
            assert secret_of(name, which) not in f"{refused} {refused!r} {config!r}"
    empty = SourceConfig(provider=name, public_url=PUBLIC_URL, options=dict(source(name).options))
    refused = refusal(empty, first)
    assert refused is not None
    assert refused.status == 401 or (sender_named(name).fetches and refused.status == 424)


@EACH
def test_an_old_or_early_request_is_refused_if_the_sender_signs_a_time(name: str) -> None:
    scheme = sender_named(name).verification
    timed = (isinstance(scheme, StandardWebhooks | Jwt) and not getattr(scheme, "detached", False)) or (
        isinstance(scheme, Signed)
        and scheme.timestamp_limits_age
        and bool(scheme.timestamp or scheme.timestamp_entry or scheme.timestamp_field)
    )
    if not timed:
        assert refusal(source(name), theirs(name, first_type(name)), NOW + 86_400) is None
        return
    request, limit_s = theirs(name, first_type(name)), sender_named(name).tolerance_s
    assert refusal(source(name), request, NOW + limit_s - 10) is None or isinstance(scheme, Jwt)
    for moment in (NOW + limit_s + 100, NOW - limit_s - 100):
        refused = refusal(source(name), request, moment)
        assert refused is not None
        assert refused.reason == "stale_timestamp"


@EACH
def test_a_captured_request_cannot_become_another_event(name: str) -> None:
    """An id in the body is signed with it. An id in a header that is not signed is bound to the body, if the
    source asks for it."""
    sender = sender_named(name)
    if not sender.unsigned_headers:
        return
    config = dataclasses.replace(source(name), options={**source(name).options, "once_per_body": True})
    request = theirs(name, first_type(name))
    again = changed(request, **dict.fromkeys(sender.unsigned_headers, "another-id-of-an-attacker"))
    assert refusal(config, again) is None
    first, second = sender.binding(config, request), sender.binding(config, again)
    assert first is not None
    assert second is not None
    assert (first.key, first.content != second.content) == (second.key, True)
    assert (sender.binding(source(name), request) is None) == sender.bodies_repeat


@EACH
def test_the_page_of_a_sender_fits_a_screen_and_says_what_is_unconfirmed(name: str) -> None:
    sender = sender_named(name)
    page = sender_page(sender)
    assert len(page.splitlines()) <= 70
    assert sender.setup
    assert sender.facts or sender.unconfirmed
    assert all(each in " ".join(page.split()) for each in sender.unconfirmed)
    assert ("**The body is not protected.**" in page) != sender.verification.covers_body
    assert bool(sender.warnings) == (not sender.verification.covers_body or bool(sender.unconfirmed))
    assert all(f"`{option}`" in page for option in sender.options_model.model_fields)
    assert secret_of(name) not in page
    assert all(f"- {each}" in page for each in sender.samples_from)
    assert ("\nSamples are written for Onceward" in page) != bool(sender.samples_from)
    assert not {"authorization", "cookie"} & set(sender.kept_headers)


def test_the_page_of_every_other_sender_says_where_its_samples_are_from() -> None:
    for name in set(PROVIDERS) - set(SENDERS) - FETCHED_BACK:
        contract = (integrations().folder_of(name) / "README.md").read_text()
        assert "Samples are written for Onceward" in contract or "these published examples" in contract, name


def test_a_sender_whose_bodies_never_repeat_protects_its_unsigned_id_by_default() -> None:
    """Each body of Jira has the millisecond of its event, and an attempt keeps the id of the first."""
    sender, config = sender_named("jira"), source("jira")
    request = theirs("jira", first_type("jira"))
    replayed = changed(request, **{"x-atlassian-webhook-identifier": "another-id-of-an-attacker"})
    first, second, retry = (sender.binding(config, each) for each in (request, replayed, request))
    assert first is not None
    assert second is not None
    assert first == retry
    assert (first.key, first.content) != (second.key, second.content)
    assert first.key == second.key
    assert sender.binds(config)
    assert not sender.binds(source("jira", once_per_body=False))
    assert not any(sender_named(name).binds(source(name)) for name in SENDERS if name != "jira")
