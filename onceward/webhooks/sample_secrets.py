"""Secrets in the format of each family, for tests and for trying a sender: keys are made when they are first needed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from onceward.lazy import lazy_module
from onceward.webhooks.families import Basic, Hmac, Jwt, PublicKey, PublishedJwt, StandardWebhooks, Verification

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
else:
    serialization = lazy_module("cryptography.hazmat.primitives.serialization")
    ec = lazy_module("cryptography.hazmat.primitives.asymmetric.ec")
    ed25519 = lazy_module("cryptography.hazmat.primitives.asymmetric.ed25519")
    rsa = lazy_module("cryptography.hazmat.primitives.asymmetric.rsa")


def sample_secret_of(verification: Verification, which: str = "a") -> str:
    """Return a secret with which a source verifies, and with which samples are signed. Each `which` gives another
    one."""
    own: Callable[[str], str] | None = getattr(verification, "sample_secret", None)
    if own is not None:
        return own(which)
    raw = f"secret {which} of the samples, 32 b"[:32].ljust(32, ".").encode()
    match verification:
        case PublicKey():
            return private_key(verification.algorithm.partition("-")[0], which)
        case PublishedJwt():
            kinds = {"R": "rsa", "E": "ecdsa"}
            return private_key(kinds[verification.algorithms[0][0]], which)
        case Jwt() if not verification.algorithms[0].startswith("HS"):
            return private_key({"R": "rsa", "E": "ecdsa"}[verification.algorithms[0][0]], which)
        case Basic():
            return f"onceward:{which}-password"
        case Hmac() | Jwt() | StandardWebhooks():
            match verification.key_encoding:
                case "hex":
                    return raw.hex()
                case "base64":
                    return base64.b64encode(raw).decode()
                case "whsec":
                    return "whsec_" + base64.b64encode(raw).decode()
                case _:
                    return raw.hex()
        case _:
            return raw.hex()


@cache
def private_key(kind: str, which: str = "a") -> str:
    """Return a private key in PEM. Each `which` is another one, and the same for the whole process."""
    match kind:
        case "rsa":
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "ecdsa":
            key = ec.generate_private_key(ec.SECP256R1())
        case _:
            key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode().strip()
