"""HMAC signatures in all their variants, and plain hashes that contain the secret."""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal

from onceward.webhooks.families.encoding import Encoding, decode, encode
from onceward.webhooks.families.signed import Claim, Signed
from onceward.webhooks.families.template import Fill, Inputs
from onceward.webhooks.provider import MAX_HEADER_CHARS, ConfigError, Rejected, Request, SourceConfig

Algorithm = Literal["md5", "sha1", "sha256", "sha384", "sha512", "named"]

_NAMED: Final = ("sha1", "sha256", "sha384", "sha512")
_DIGITS: Final[Mapping[str, int]] = {"s": 10, "ms": 13}
_UNITS_PER_S: Final[Mapping[str, int]] = {"s": 1, "ms": 1000}
Fast = Callable[[SourceConfig, Request, float], bool]
Mac = Callable[[bytes], str]


@dataclass(frozen=True, kw_only=True)
class Hmac(Signed):
    """An HMAC with the secret as key: `Hmac(header="x-signature", signed="{timestamp}.{body}", ...)`.

    The algorithm `named` means that the value names it: `sha256=...`. `keyed=False` is a plain hash of a text that
    contains `{secret}`. The value compiles a short way to accept the usual form of a request; every other form, and
    every rejection, is decided by `Signed`.
    """

    algorithm: Algorithm = "sha256"
    keyed: bool = True
    _accepts: Fast | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keyed == ("{secret}" in self.template):
            raise ConfigError(
                f"option signed is {self.signed!r}: {{secret}} belongs to a plain hash, and an HMAC does not contain "
                f"it (option keyed)"
            )
        if self.algorithm == "named" and self.prefix:
            raise ConfigError("option prefix: with the algorithm named, the prefix is the name of the algorithm")
        self._set("_accepts", _compile(self))

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if self._accepts is None or not self._accepts(config, request, now):
            self.decide(config, request, now)

    def match(self, keys: tuple[bytes, ...], claim: Claim) -> None:
        if self.algorithm == "named" and keys:
            self._match_named(keys, claim)
        else:
            super().match(keys, claim)

    def _any_match(self, keys: tuple[bytes, ...], decoded: list[bytes], claim: Claim) -> bool:
        for key in keys:
            expected = self._digest(key, claim.inputs, self.algorithm)
            for raw in decoded:
                if hmac.compare_digest(expected, raw):
                    return True
        return False

    def _match_named(self, keys: tuple[bytes, ...], claim: Claim) -> None:
        for text in claim.signatures:
            algorithm, _, value = text.partition("=")
            raw = decode(self.encoding, value)
            if algorithm not in _NAMED:
                raise Rejected("unsupported_algorithm", f"the signature names none of {', '.join(_NAMED)}")
            if raw is None:
                raise Rejected("bad_encoding", f"the signature is not valid {self.encoding}")
            if any(hmac.compare_digest(self._digest(key, claim.inputs, algorithm), raw) for key in keys):
                return
        raise Rejected("bad_signature", "no signature was made with a secret of this source")

    def _make(self, key: bytes, inputs: Inputs) -> bytes:
        return self._digest(key, inputs, "sha256" if self.algorithm == "named" else self.algorithm)

    @property
    def _written_prefix(self) -> str:
        return "sha256=" if self.algorithm == "named" else super()._written_prefix

    def _digest(self, key: bytes, inputs: Inputs, algorithm: str) -> bytes:
        if not self.keyed:
            inputs.key = key
            return hashlib.new(algorithm, self.template.render(inputs), usedforsecurity=False).digest()
        return hmac.digest(key, self.template.render(inputs), algorithm)


def _compile(scheme: Hmac) -> Fast | None:
    """Return a function that accepts the usual form of a request, or None if the scheme has no usual form.

    It only accepts: whatever it does not accept is decided by `Signed.decide`, which says what is wrong.
    """
    fill, digits = scheme.template.fill, _DIGITS.get(scheme.timestamp_unit)
    if fill is None or digits is None or scheme.algorithm == "named" or not scheme.timestamp_limits_age:
        return None
    if len(scheme.signature_headers) != 1 or scheme.timestamp_field or not scheme.keyed:
        return None
    if scheme.timestamp_entry and scheme.signed_id_header:
        return None
    macs = _macs(scheme.algorithm, scheme.encoding)
    if scheme.timestamp_entry:
        return _compile_entries(scheme, fill, digits, macs)
    return _compile_headers(scheme, fill, digits, macs)


def _compile_headers(scheme: Hmac, fill: Fill, digits: int, macs: Callable[[bytes], Mac]) -> Fast:
    """The signature is alone in its header. The time and the id have headers of their own."""
    (header,), prefix, stamp_header = scheme.signature_headers, scheme.prefix, scheme.timestamp
    id_header, unit_s = scheme.signed_id_header, _UNITS_PER_S[scheme.timestamp_unit]
    start, same = len(prefix), hmac.compare_digest
    if not scheme.prefix_required:
        start, prefix = 0, ""
    length = start + _encoded_length(scheme)

    def accepts_undated(config: SourceConfig, request: Request, now: float) -> bool:
        text = request.headers.get(header)
        if not text or len(text) != length or not text.isascii() or text[:start] != prefix:
            return False
        content, sent = fill(b"", b"", request.body), text[start:]
        for key in config.keys:  # noqa: SIM110 - a generator would double the cost
            if same(macs(key)(content), sent):
                return True
        return False

    def accepts_dated(config: SourceConfig, request: Request, now: float) -> bool:
        headers = request.headers
        text, stamp = headers.get(header), headers.get(stamp_header)
        if not text or not stamp or len(stamp) != digits or not (stamp.isascii() and stamp.isdigit()):
            return False
        if len(text) != length or not text.isascii() or text[:start] != prefix:
            return False
        if abs(now - int(stamp) / unit_s) > config.tolerance_s:
            return False
        identity = b""
        if id_header:
            name = headers.get(id_header)
            if not name or len(name) > MAX_HEADER_CHARS or not name.isascii():
                return False
            identity = name.encode()
        content, sent = fill(identity, stamp.encode(), request.body), text[start:]
        for key in config.keys:  # noqa: SIM110 - a generator would double the cost
            if same(macs(key)(content), sent):
                return True
        return False

    return accepts_dated if stamp_header else accepts_undated


def _compile_entries(scheme: Hmac, fill: Fill, digits: int, macs: Callable[[bytes], Mac]) -> Fast:
    """The header is `t=1700000000,v1=...`: the time first, then one signature."""
    (header,), before = scheme.signature_headers, scheme.timestamp_entry
    between = scheme.separator + scheme.prefix
    first = len(before)
    last = first + digits
    start, unit_s, same = last + len(between), _UNITS_PER_S[scheme.timestamp_unit], hmac.compare_digest
    length = start + _encoded_length(scheme)

    def accepts(config: SourceConfig, request: Request, now: float) -> bool:
        text = request.headers.get(header)
        if not text or len(text) != length or text[:first] != before or text[last:start] != between:
            return False
        if not text.isascii():
            return False
        stamp = text[first:last]
        if not stamp.isdigit() or abs(now - int(stamp) / unit_s) > config.tolerance_s:
            return False
        content, sent = fill(b"", stamp.encode(), request.body), text[start:]
        for key in config.keys:  # noqa: SIM110 - a generator would double the cost
            if same(macs(key)(content), sent):
                return True
        return False

    return accepts


def _encoded_length(scheme: Hmac) -> int:
    return len(encode(scheme.encoding, bytes(hashlib.new(scheme.algorithm, usedforsecurity=False).digest_size)))


@lru_cache(maxsize=64)
def _macs(algorithm: str, encoding: Encoding) -> Callable[[bytes], Mac]:
    """Return a function from a key to a function that computes HMACs (RFC 2104) with it, encoded as text.

    The two hashes of the key are computed once. For a short body this takes half the time of `hmac.digest`.
    """
    new = hashlib.new
    block_bytes = new(algorithm, usedforsecurity=False).block_size

    @lru_cache(maxsize=256)
    def keyed(key: bytes) -> Mac:
        if len(key) > block_bytes:
            key = new(algorithm, key, usedforsecurity=False).digest()
        block = key.ljust(block_bytes, b"\0")
        first = new(algorithm, bytes(byte ^ 0x36 for byte in block), usedforsecurity=False)
        second = new(algorithm, bytes(byte ^ 0x5C for byte in block), usedforsecurity=False)

        def hexadecimal(content: bytes) -> str:
            inner, outer = first.copy(), second.copy()
            inner.update(content)
            outer.update(inner.digest())
            return outer.hexdigest()

        def in_base64(content: bytes) -> str:
            inner, outer = first.copy(), second.copy()
            inner.update(content)
            outer.update(inner.digest())
            return b2a_base64(outer.digest(), newline=False).decode()

        def other(content: bytes) -> str:
            inner, outer = first.copy(), second.copy()
            inner.update(content)
            outer.update(inner.digest())
            return encode(encoding, outer.digest())

        return {"hex": hexadecimal, "base64": in_base64}.get(encoding, other)

    return keyed


def mac(algorithm: str, encoding: Encoding, key: bytes, content: bytes) -> str:
    """Return an HMAC as text."""
    return _macs(algorithm, encoding)(key)(content)
