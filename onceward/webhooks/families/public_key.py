"""Signatures that a public key verifies: Ed25519, RSA and ECDSA. The key is configured, never taken from the
request."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from onceward.lazy import lazy_module
from onceward.webhooks.families.signed import Claim, Signed
from onceward.webhooks.families.template import Inputs
from onceward.webhooks.provider import ConfigError, Request, SourceConfig

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
else:
    exceptions = lazy_module("cryptography.exceptions")
    hashes = lazy_module("cryptography.hazmat.primitives.hashes")
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    ec = lazy_module("cryptography.hazmat.primitives.asymmetric.ec")
    ed25519 = lazy_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    padding = lazy_module("cryptography.hazmat.primitives.asymmetric.padding")
    rsa = lazy_module("cryptography.hazmat.primitives.asymmetric.rsa")
    utils = lazy_module("cryptography.hazmat.primitives.asymmetric.utils")

PublicKeyAlgorithm = Literal[
    "ed25519", "rsa-sha1", "rsa-sha256", "rsa-sha512", "ecdsa-sha1", "ecdsa-sha256", "ecdsa-sha384"
]
_KINDS: Final = {"ed25519": "Ed25519", "rsa": "RSA", "ecdsa": "elliptic curve"}


@dataclass(frozen=True, kw_only=True)
class PublicKey(Signed):
    """A signature with a private key of the sender. The secret of the source is the public key.

    The public key is PEM, or SPKI (DER) in base64; an Ed25519 key may also be its 32 bytes in hex or base64. A private
    key in PEM verifies too, and can sign simulated requests. `raw=True` is for ECDSA signatures that are two numbers of
    fixed length instead of DER.
    """

    algorithm: PublicKeyAlgorithm = "ed25519"
    raw: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.key_encoding != "text":
            raise ConfigError("option key_encoding: the format of a public key is recognised, so remove the option")
        if self.raw and not self.algorithm.startswith("ecdsa"):
            raise ConfigError(f"option raw: a signature of {self.algorithm} has only one form, so remove the option")

    def decode_secret(self, secret: str) -> bytes:
        key = secret.encode() if secret.startswith("-----BEGIN") else _decode_key(secret)
        _load(self.algorithm.partition("-")[0], key)
        return key

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        self.decide(config, request, now)

    def _any_match(self, keys: tuple[bytes, ...], decoded: list[bytes], claim: Claim) -> bool:
        content = self.template.render(claim.inputs)
        return any(is_signed(self.algorithm, key, raw, content, raw_ecdsa=self.raw) for key in keys for raw in decoded)

    def _make(self, key: bytes, inputs: Inputs) -> bytes:
        if b"PRIVATE KEY" not in key:
            raise ConfigError("a public key only verifies: use the private key to sign", field="secrets")
        private = serialization.load_pem_private_key(key, password=None)
        content = self.template.render(inputs)
        if isinstance(private, ed25519.Ed25519PrivateKey):
            return private.sign(content)
        if isinstance(private, rsa.RSAPrivateKey):
            return private.sign(content, padding.PKCS1v15(), _hash(self.algorithm))
        if isinstance(private, ec.EllipticCurvePrivateKey):
            signed = private.sign(content, ec.ECDSA(_hash(self.algorithm)))
            return _fixed(signed, private.curve.key_size) if self.raw else signed
        raise ConfigError("the private key is not Ed25519, RSA or elliptic curve", field="secrets")


def is_signed(
    algorithm: PublicKeyAlgorithm, key: bytes, signature: bytes, content: bytes, *, raw_ecdsa: bool = False
) -> bool:
    """Return whether the private key of `key` made a signature."""
    public = _load(algorithm.partition("-")[0], key)
    try:
        if isinstance(public, ed25519.Ed25519PublicKey):
            public.verify(signature, content)
        elif isinstance(public, rsa.RSAPublicKey):
            public.verify(signature, content, padding.PKCS1v15(), _hash(algorithm))
        else:
            public.verify(_der(signature) if raw_ecdsa else signature, content, ec.ECDSA(_hash(algorithm)))
    except exceptions.InvalidSignature:
        return False
    return True


@lru_cache(maxsize=256)
def _load(kind: str, key: bytes) -> ed25519.Ed25519PublicKey | rsa.RSAPublicKey | ec.EllipticCurvePublicKey:
    """Return a public key of one kind. Raise ValueError, which does not contain the key, if the bytes are not one."""
    try:
        if kind == "ed25519" and len(key) == 32:
            return ed25519.Ed25519PublicKey.from_public_bytes(key)
        if b"PRIVATE KEY" in key:
            loaded = serialization.load_pem_private_key(key, password=None).public_key()
        elif key.startswith(b"-----BEGIN"):
            loaded = serialization.load_pem_public_key(key)
        else:
            loaded = serialization.load_der_public_key(key)
    except (ValueError, TypeError, exceptions.UnsupportedAlgorithm):
        raise ValueError(f"it is not a public key of the kind {_KINDS[kind]}") from None
    wanted = {"ed25519": ed25519.Ed25519PublicKey, "rsa": rsa.RSAPublicKey, "ecdsa": ec.EllipticCurvePublicKey}[kind]
    if not isinstance(loaded, wanted):
        raise ValueError(f"it is not a public key of the kind {_KINDS[kind]}")
    return loaded


def _decode_key(secret: str) -> bytes:
    if len(secret) == 64:
        try:
            return binascii.unhexlify(secret)
        except ValueError:
            pass
    try:
        return base64.b64decode("".join(secret.split()), validate=True)
    except ValueError:
        raise ValueError("it is neither PEM, nor hexadecimal, nor base64") from None


def _hash(algorithm: str) -> hashes.HashAlgorithm:
    name = algorithm.rpartition("-")[2]
    return {"sha1": hashes.SHA1, "sha256": hashes.SHA256, "sha384": hashes.SHA384, "sha512": hashes.SHA512}[name]()


def _der(signature: bytes) -> bytes:
    half = len(signature) // 2
    return utils.encode_dss_signature(int.from_bytes(signature[:half]), int.from_bytes(signature[half:]))


def _fixed(signature: bytes, bits: int) -> bytes:
    size = (bits + 7) // 8
    return b"".join(number.to_bytes(size) for number in utils.decode_dss_signature(signature))
