"""Signatures of QR codes, which a device at the door checks without a network: ECDSA with P-256 and SHA-256.

Every browser knows this algorithm. The private key is derived from the organization's signing key, so there is
nothing more
to store; a device gets the public keys only.
"""

from __future__ import annotations

from uuid import UUID

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from onceward.trust import ring_keys

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32 has no I, L, O, U, so that nobody confuses characters when reading aloud or typing."""
VALUES = {character: value for value, character in enumerate(ALPHABET)}
SIGNATURE_BYTES = 64
SIGNATURE_CHARACTERS = 103
"""64 bytes in base 32, whose characters make small QR codes."""
ORDER = int("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
"""The number of points of P-256: private keys are smaller."""
PURPOSE = b"onceward ticketing: signatures of tickets"


def sign(ring: bytes, event_id: UUID, plain_code: str) -> str:
    """Return the signature of a ticket code for one event. A repeat returns the same signature."""
    made = _private(ring_keys(ring)[0]).sign(
        _message(event_id, plain_code), ec.ECDSA(SHA256(), deterministic_signing=True)
    )
    r, s = decode_dss_signature(made)
    value = r << 256 | s
    return "".join(ALPHABET[(value >> (5 * n)) & 31] for n in reversed(range(SIGNATURE_CHARACTERS)))


def is_signed(ring: bytes, event_id: UUID, plain_code: str, signature: str) -> bool:
    """Return whether a key of the ring has signed this code for this event."""
    if len(signature) != SIGNATURE_CHARACTERS or any(each not in VALUES for each in signature):
        return False
    value = 0
    for each in signature:
        value = value << 5 | VALUES[each]
    if value >> (8 * SIGNATURE_BYTES):
        return False
    encoded = encode_dss_signature(value >> 256, value & (2**256 - 1))
    for key in ring_keys(ring):
        try:
            _private(key).public_key().verify(encoded, _message(event_id, plain_code), ec.ECDSA(SHA256()))
        except InvalidSignature:
            continue
        return True
    return False


def public_keys(ring: bytes) -> list[bytes]:
    """Return the public keys of the ring in the form that browsers import (X9.62, uncompressed), newest first."""
    points = (_private(key).public_key() for key in ring_keys(ring))
    return [point.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint) for point in points]


def _private(key: bytes) -> ec.EllipticCurvePrivateKey:
    derived = HKDF(algorithm=SHA256(), length=48, salt=None, info=PURPOSE).derive(key)
    return ec.derive_private_key(int.from_bytes(derived, "big") % (ORDER - 1) + 1, ec.SECP256R1())


def _message(event_id: UUID, plain_code: str) -> bytes:
    return f"ticket:{event_id}:{plain_code}".encode()
