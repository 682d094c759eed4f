"""Find who sent a captured request: the sender, or the options of a generic source, that verify it with a secret."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from onceward.webhooks.families import Basic, Hmac, Jwt, StandardWebhooks, Token
from onceward.webhooks.families.signed import Signed
from onceward.webhooks.provider import ConfigError, Provider, Rejected, Request, SourceConfig
from onceward.webhooks.registry import PROVIDERS

TEXTS: Final = (
    "{body}",
    "{timestamp}.{body}",
    "{timestamp}:{body}",
    "{timestamp}{body}",
    "{body}{timestamp}",
    "{body}.{timestamp}",
    "{timestamp}|{body}",
    "v0:{timestamp}:{body}",
    "v1:{timestamp}:{body}",
    "{url}{body}",
    "{body}{url}",
    "{method}{url}{body}{timestamp}",
    "{url}{form}",
)
DIGEST_BYTES: Final[Mapping[str, int]] = {"sha256": 32, "sha1": 20, "sha512": 64, "md5": 16, "sha384": 48}
KEYS: Final = ("text", "whsec", "base64", "hex")
UNITS: Final = ("s", "ms", "iso", "http")
ANY_AGE_S: Final = 86_400
MOST_SIGNATURES: Final = 12
GENERIC: Final = ("generic", "none")


@dataclass(frozen=True, slots=True)
class Match:
    """A source that verifies the request."""

    provider: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Near:
    """A sender whose headers the request has, and why it does not verify."""

    provider: str
    title: str
    reason: str
    problem: str


@dataclass(frozen=True, slots=True)
class Detected:
    """What was found: the matches, best first, or the senders that come nearest."""

    matches: tuple[Match, ...]
    near: tuple[Near, ...]


def detect(request: Request, secret: str, *, public_url: str | None = None) -> Detected:
    """Try every known sender, then the usual variants of an HMAC. The age of the request does not matter."""
    matches: list[Match] = []
    near: list[Near] = []
    for name, provider in PROVIDERS.items():
        if name in GENERIC or not _is_candidate(provider, request):
            continue
        try:
            _verify(provider, request, secret, public_url)
        except (Rejected, ConfigError) as error:
            reason = error.reason if isinstance(error, Rejected) else "misconfigured"
            near.append(Near(name, provider.title, reason, str(error)))
        else:
            matches.append(Match(name))
    # Several senders may use one header and one algorithm: the one that finds its id and type comes first.
    matches.sort(key=lambda each: not _reads(each.provider, request, secret, public_url))
    if not matches:
        matches += itertools.islice(_variants(request, secret, public_url), 3)
    return Detected(tuple(matches[:10]), tuple(near[:10]))


def _is_candidate(provider: Provider, request: Request) -> bool:
    """Return whether the request has what the sender puts its proof into. Nothing else is tried."""
    scheme = getattr(provider, "verification", None)
    headers = request.headers
    if isinstance(scheme, Basic):
        return headers.get("authorization", "").startswith("Basic ")
    if isinstance(scheme, Token):
        # A token fits everywhere: only a header of the sender's own says something.
        return scheme.header not in ("", "authorization") and scheme.header in headers
    if isinstance(scheme, Jwt):
        return scheme.header in headers and headers[scheme.header].count(".") == 2
    if isinstance(scheme, Signed | StandardWebhooks):
        return any(name in headers for name in scheme.signature_headers)
    return False


def _config(provider: Provider, secret: str, public_url: str | None) -> SourceConfig:
    required = {
        name: (each.examples or [""])[0]
        for name, each in provider.options_model.model_fields.items()
        if each.is_required()
    }
    return SourceConfig(
        provider=provider.name, secrets=(secret,), public_url=public_url, options=required, tolerance_s=ANY_AGE_S
    )


def _verify(provider: Provider, request: Request, secret: str, public_url: str | None) -> None:
    try:
        provider.verify(_config(provider, secret, public_url), request, 0.0)
    except Rejected as rejected:
        if rejected.reason != "stale_timestamp":  # correctly signed, long ago
            raise


def _reads(name: str, request: Request, secret: str, public_url: str | None) -> bool:
    provider = PROVIDERS[name]
    try:
        items = provider.parse(_config(provider, secret, public_url), request)
    except (Rejected, ConfigError):
        return False
    return any(item.type != "unknown" and not item.event_id.startswith("sha256:") for item in items)


def _variants(request: Request, secret: str, public_url: str | None) -> Iterator[Match]:
    """Return the options of generic sources that verify the request."""
    for header, place in itertools.islice(_signatures(request), MOST_SIGNATURES):
        for stamp in _stamps(request, header):
            for text, key in itertools.product(TEXTS, KEYS):
                if ("{timestamp}" in text) != bool(stamp) or ("{url}" in text and public_url is None):
                    continue
                options = {"header": header, "signed": text, "key_encoding": key, **place, **stamp}
                if _is_verified(options, request, secret, public_url):
                    yield Match("generic", _without_defaults(options))


def _signatures(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the headers that may contain an HMAC, with how it is written there."""
    for header, value in request.headers.items():
        for separator in ("", ",", ";", " "):
            entries = value.split(separator) if separator else [value]
            if separator and len(entries) < 2:
                continue
            for entry in entries:
                prefix, equals, _ = entry.strip().partition("=")
                for before in ("", f"{prefix}=" if equals and len(prefix) < 16 else ""):
                    yield from _written(header, entry.strip().removeprefix(before), before, separator)


def _written(header: str, text: str, prefix: str, separator: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for algorithm, size in DIGEST_BYTES.items():
        is_hex = len(text) == 2 * size and all(each in "0123456789abcdefABCDEF" for each in text)
        is_base64 = len(text.rstrip("=")) == (size * 8 + 5) // 6 and not is_hex
        for encoding in ("hex",) if is_hex else ("base64", "base64url") if is_base64 else ():
            yield header, {"algorithm": algorithm, "encoding": encoding, "prefix": prefix, "separator": separator}


def _stamps(request: Request, header: str) -> Iterator[dict[str, str]]:
    """Return no timestamp, then each place that may contain one."""
    yield {}
    names = [name for name in request.headers if "time" in name or name == "date"]
    for name, unit in itertools.product(names, UNITS):
        yield {"timestamp": name, "timestamp_unit": unit}
    for prefix, unit in itertools.product(("t=", "ts=", "time=", "timestamp="), ("s", "ms")):
        if prefix in request.headers[header]:
            yield {"timestamp_entry": prefix, "timestamp_unit": unit}


def _is_verified(options: dict[str, Any], request: Request, secret: str, public_url: str | None) -> bool:
    try:
        scheme = Hmac(**options)
        config = SourceConfig(provider="generic", options={"header": "x"}, public_url=public_url)
        keyed = replace(config, secrets=(scheme.decode_secret(secret) or b"\0",), tolerance_s=ANY_AGE_S)
        scheme.verify(keyed, request, 0.0)
    except Rejected as rejected:
        return rejected.reason == "stale_timestamp"
    except (ConfigError, ValueError):
        return False
    return True


def _without_defaults(options: dict[str, Any]) -> dict[str, Any]:
    usual = Hmac(header="x")
    return {name: value for name, value in options.items() if name == "header" or value != getattr(usual, name)}


def read_capture(text: bytes) -> Request:
    """Return the request of a capture: lines `Name: value`, an empty line, the body.

    The first line may be `POST /path HTTP/1.1`.
    """
    head, _, body = text.replace(b"\r\n\r\n", b"\n\n", 1).partition(b"\n\n")
    method, path, query = "POST", "/", ""
    headers: dict[str, str] = {}
    for n, line in enumerate(head.decode("latin-1").splitlines()):
        name, colon, value = line.partition(":")
        words = line.split(" ")
        if n == 0 and len(words) == 3 and words[2].startswith("HTTP/"):
            method, (path, _, query) = words[0], words[1].partition("?")
        elif colon and name.strip():
            headers[name.strip().lower()] = value.strip()
        elif line.strip():
            raise ConfigError(
                f"line {n + 1} of the capture is not `Name: value`: an empty line must come before the body"
            )
    if not headers:
        raise ConfigError("the capture has no headers: write them as `Name: value`, then an empty line and the body")
    return Request(method, path, query, headers, body)


def detect_capture(text: bytes, secret: str, *, public_url: str | None = None) -> Detected:
    """Like `detect`, for the text of a capture. An editor may have added a line break at its end."""
    request = read_capture(text)
    found = detect(request, secret, public_url=public_url)
    if found.matches or not request.body.endswith(b"\n"):
        return found
    return detect(
        replace(request, body=request.body.removesuffix(b"\n").removesuffix(b"\r")), secret, public_url=public_url
    )


def advice(found: Detected) -> list[str]:
    """Return what to do, in sentences. They contain neither the secret nor values of the request."""
    lines = [
        f"{each.provider} verifies this request: `onceward sources add NAME --provider {each.provider}`"
        if not each.options
        else f"a generic source verifies this request with the options {orjson.dumps(dict(each.options)).decode()}"
        for each in found.matches
    ]
    if lines:
        return lines
    nearest = [f"{each.title} ({each.provider}) comes near: {each.problem}" for each in found.near]
    return nearest or [
        "no known sender and no usual HMAC fits: check the secret, and that the body is complete and unchanged"
    ]
