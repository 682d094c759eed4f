"""The page of a sender that is only data. Everything on it comes from the declaration, so that it cannot be out of
date."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Final
from urllib.parse import quote

from onceward.webhooks.events import Arrival, Derive, Header, Join, OnePlace, Place, places_of
from onceward.webhooks.families import (
    Basic,
    Hmac,
    Jwt,
    PublicKey,
    PublishedJwt,
    PublishedKey,
    StandardWebhooks,
    Token,
    Verification,
)
from onceward.webhooks.families.signed import Signed
from onceward.webhooks.sender import Sender

LINE: Final = 120
SAFE: Final = " @+"
"""Characters of a type that a file name may contain, besides letters, digits and `_.-~`."""
UNITS: Final = {
    "s": "seconds",
    "ms": "milliseconds",
    "any": "seconds or milliseconds",
    "iso": "ISO 8601",
    "http": "a date as in HTTP",
}
KEYS: Final = {
    "hex": "decoded from hexadecimal",
    "base64": "decoded from base64",
    "whsec": "decoded from base64 after `whsec_`",
    "sha1": "hashed with SHA-1",
}


def sender_page(sender: Sender) -> str:
    """Return the contract page of a sender in Markdown. A line that only links to a sample becomes the sample."""
    return "\n".join(_lines(sender)) + "\n"


def scheme_of(sender: Sender) -> str:
    """Return the name of the scheme of a sender, as the index of the documentation groups them."""
    return _short(sender.verification)


def _lines(sender: Sender) -> Iterator[str]:
    retries = "yes" if sender.retries else "no"
    yield f"# {sender.title}"
    yield ""
    yield (
        f"Sender: {sender.title}. Signature: {_short(sender.verification)}. "
        f"Event id: {_shown_id(sender.events.id)}. Retries: {retries}."
    )
    if sender.unconfirmed:
        yield ""
        yield from _filled(
            f"**Unconfirmed** (not read in a document of {sender.title}): {'; '.join(sender.unconfirmed)}."
        )
    yield from ("", "## Set it up", *_filled(sender.setup), "```", _add_command(sender), "```", *_options(sender))
    yield from ("", "## What is verified", *_verified(sender))
    yield from ("", "## Which event it becomes", *_events(sender))
    failure = sender.failure or "What the sender does when we fail is not documented: reconcile through its API."
    mode = "" if sender.retries else " The source must use `ack`."
    yield from ("", "## When it fails", *_filled(failure + mode))
    first = next(iter(sender.samples), "")
    yield from ("", "## Samples", f"[{first}](samples/{quote(first, safe=SAFE)}.json)", "")
    if sender.samples_from:
        yield "The samples have the fields of these published examples, and made-up values."
        yield "Any others are written for Onceward."
        yield from ("", *(f"- {each}" for each in sender.samples_from))
    else:
        yield "Samples are written for Onceward from the documented names of fields; the values are made up."
    yield from ("", "## Try it", "```", *_triggers(sender), "```")
    if sender.facts:
        yield from ("", "## Where this was read", *(f"- {each}" for each in sender.facts))


def _filled(text: str) -> list[str]:
    """Break prose into lines. Lines that begin a list stay."""
    lines: list[str] = []
    for each in text.splitlines():
        indent = "  " if each.startswith("- ") else "   " if each[:2].rstrip(".").isdigit() else ""
        lines += fill(each, LINE, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False).splitlines()
    return lines


def _add_command(sender: Sender) -> str:
    parts = [f"onceward sources add {sender.name}"]
    if _needs_url(sender.verification):
        parts.append("--public-url https://hooks.example.com")
    for name, described in sender.options_model.model_fields.items():
        if described.is_required():
            parts.append(f"--option {name}=VALUE")
    return " ".join(parts)


def _needs_url(scheme: Verification) -> bool:
    if isinstance(scheme, Signed):
        return scheme.template.needs_url
    return isinstance(scheme, Jwt) and bool(scheme.url_claim)


def _options(sender: Sender) -> Iterator[str]:
    fields = sender.options_model.model_fields
    if not fields:
        yield "There are no options."
        return
    yield from ("", "| option | default | meaning |", "|---|---|---|")
    for name, described in fields.items():
        default = (
            "required" if described.is_required() else "none" if not described.default else f"`{described.default}`"
        )
        yield f"| `{name}` | {default} | {described.description or ''} |"


def _verified(sender: Sender) -> Iterator[str]:
    scheme = sender.verification
    tolerance = f" It may be {sender.tolerance_s} s old, as in the sender's own library."
    differs = sender.tolerance_s != Sender.tolerance_s
    yield from _filled(" ".join(_sentences(scheme)) + (tolerance if differs else ""))
    if not scheme.covers_body:
        yield ""
        yield from _filled(
            "**The body is not protected.** Somebody who knows the token, or saw one request, can send other"
            " bodies. Use https only, and"
            " confirm through the sender's API what moves money or data."
        )
    elif not _has_time(scheme):
        yield from _filled(
            "There is no time in the signature: somebody who captured a request can send it again. Only the event id"
            " shows it."
        )
    if sender.published_addresses:
        yield ""
        yield from _filled(
            f"{sender.title} publishes its IP addresses: {sender.published_addresses}. The option `addresses` of a"
            " source accepts no others."
        )
    if sender.notes:
        yield ""
        yield from _filled(sender.notes)


def _has_time(scheme: Verification) -> bool:
    if isinstance(scheme, Signed):
        return bool(scheme.timestamp or scheme.timestamp_entry or scheme.timestamp_field)
    return not isinstance(scheme, Token | Basic)


def _sentences(scheme: Verification) -> Iterator[str]:
    match scheme:
        case StandardWebhooks():
            names = " or ".join(f"`{prefix}-signature`" for prefix in scheme.header_prefixes)
            yield f"{names} is a list of `v1,<base64>` entries: HMAC-SHA256 of `<id>.<timestamp>.<body>`."
            yield "The timestamp is in seconds."
            yield _key(scheme.key_encoding)
            yield "One matching entry is enough."
        case Hmac() | PublicKey():
            place = _place(scheme)
            kind = _short(scheme).partition(",")[0]
            yield f"{place} is the {kind} of `{scheme.signed}` in {scheme.encoding}."
            if scheme.prefix:
                optional = "" if scheme.prefix_required else ", which may be missing"
                yield f"It begins with `{scheme.prefix}`{optional}."
            if scheme.separator:
                yield f"The value is a list separated by `{scheme.separator}`; one matching entry is enough."
            if isinstance(scheme, Hmac):
                yield _key(scheme.key_encoding)
            else:
                yield "The secret of the source is the sender's public key:"
                yield "PEM, DER in base64, or the 32 bytes of an Ed25519 key."
            yield from _time(scheme)
            if isinstance(scheme, PublishedKey):
                yield f"Without a secret, the keys are fetched from `{scheme.keys_url}` and kept for an hour."
        case Jwt():
            yield f"`{scheme.header}` is a JSON Web Token ({', '.join(scheme.algorithms)})."
            for claim, name in ((scheme.issuer, "iss"), (scheme.audience, "aud")):
                if claim:
                    yield f"Its `{name}` must be `{claim}`."
            if isinstance(scheme, PublishedJwt):
                for name, value in scheme.claims:
                    yield f"Its `{name}` must be `{value}`, if set."
                yield f"The keys are fetched from `{scheme.keys_url}` and kept for an hour."
                if scheme.detached:
                    yield "Its payload is the body itself."
            if scheme.body_claim and not getattr(scheme, "detached", False):
                yield f"Its `{scheme.body_claim}` is the SHA-256 of the body in {scheme.body_encoding}."
            if scheme.url_claim:
                yield f"Its `{scheme.url_claim}` is the SHA-256 of the URL."
        case Token():
            place = f"header `{scheme.header}`" if scheme.header else f"query parameter `{scheme.query}`"
            place = f"field `{scheme.field}`" if scheme.field else place
            yield f"The {place} is the secret of the source."
        case Basic():
            yield "`Authorization: Basic` carries the secret of the source, which is `user:password`."
        case _:
            yield (scheme.__doc__ or "").strip().partition("\n\n")[0].replace("\n    ", " ")


def _place(scheme: Signed) -> str:
    if scheme.signature_headers:
        return " or ".join(f"`{name}`" for name in scheme.signature_headers[:2])
    return f"The query parameter `{scheme.query}`" if scheme.query else f"The field `{scheme.field}`"


def _time(scheme: Signed) -> Iterator[str]:
    place = (
        scheme.timestamp or scheme.timestamp_field or (scheme.timestamp_entry and "its entry " + scheme.timestamp_entry)
    )
    if not place:
        return
    limit = "" if scheme.timestamp_limits_age else "; its age is not checked, because its unit is not certain"
    yield f"The timestamp (`{place.removeprefix('its entry ')}`) is in {UNITS[scheme.timestamp_unit]}{limit}."


def _key(encoding: str) -> str:
    return f"The key is the secret, {KEYS[encoding]}." if encoding in KEYS else "The key is the text of the secret."


def _short(scheme: Verification) -> str:
    match scheme:
        case StandardWebhooks():
            return "Standard Webhooks `v1`"
        case Hmac():
            digest = "SHA" if scheme.algorithm == "named" else scheme.algorithm.upper()
            parts = [f"HMAC-{digest}" if scheme.keyed else f"{digest} with the secret"]
            if scheme.timestamp or scheme.timestamp_entry or scheme.timestamp_field:
                parts.append(f"timestamp in {UNITS[scheme.timestamp_unit]}")
            if scheme.template.needs_url:
                parts.append("with the URL")
            return ", ".join(parts if scheme.body_is_signed else [*parts, "without the body"])
        case PublicKey():
            name = {"ed25519": "Ed25519"}.get(scheme.algorithm, scheme.algorithm.upper())
            return f"{name}, published keys" if isinstance(scheme, PublishedKey) else name
        case Jwt():
            kind = "detached JWS" if getattr(scheme, "detached", False) else "JWT"
            return f"{kind}, published keys" if isinstance(scheme, PublishedJwt) else f"{kind}, shared key"
        case Token():
            return "none: a shared token"
        case Basic():
            return "none: Basic authentication"
        case _:
            return str(getattr(scheme, "summary", type(scheme).__name__))


def _shown_id(place: Place) -> str:
    match next(places_of(place), None):
        case None:
            return "hash of the body"
        case str() as path:
            return f"`{path}`"
        case Header(name):
            return f"`{name}`"
        case Arrival():
            return "none: each request is an event"
        case _:
            return "derived"


def _shown(place: Place) -> str:
    return ", else ".join(_one(each) for each in places_of(place))


def _one(place: OnePlace) -> str:
    match place:
        case str():
            return f"`{place}`"
        case Header():
            return f"header `{place.name}`"
        case Join():
            return f" and `{place.by}` and ".join(_one(each) for each in place.places)
        case Arrival():
            return "a new one for each request, because equal notifications are different events"
        case Derive():
            return "a hash of " + ", ".join(f"`{each}`" for each in place.paths)
        case _:
            return (place.__doc__ or "").strip().partition("\n")[0].rstrip(".").removeprefix("Return ") or "computed"


def _events(sender: Sender) -> Iterator[str]:
    events = sender.events
    whole = "the body" if events.items == "." else f"`{events.items}`"
    if events.items:
        yield f"- Each element of {whole} is an event; the other paths are relative to it."
    yield from _filled(
        f"- Event id: {_shown(events.id) or 'a hash of the body'}{' with the type' if events.id_per_type else ''}."
    )
    types = [_shown(events.type), f"`{events.default_type}`" if events.default_type else ""]
    yield from _filled(f"- Type: {', else '.join(each for each in types if each)}.")
    if events.ordering:
        yield from _filled(f"- Ordered by {_shown(events.ordering)}.")
    yield f"- A handler's model describes {f'`{events.data}`' if events.data else 'the event'}."
    if sender.handshake is not None and sender.handshake.note:
        yield from _filled(f"- {sender.handshake.note}")
    if sender.accepted_reply is not None:
        text = sender.accepted_reply.body.decode()
        content = f"with the text `{text}`" if text else "without a body"
        yield f"- The answer is {sender.accepted_reply.status} {content}."


def _triggers(sender: Sender) -> Iterator[str]:
    for type in list(sender.samples)[:2]:
        yield f"onceward trigger {sender.name} {type!r}" if " " in type else f"onceward trigger {sender.name} {type}"
