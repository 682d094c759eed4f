"""Passes for Apple Wallet and Google Wallet, in the formats of both.

Apple: a ZIP file with `pass.json`, images, a manifest of SHA-1 hashes, and a detached PKCS #7 signature of the
manifest by the
certificate of the pass type. Google: a link with a JWT that a service account has signed; it has the pass inside.
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha1
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs7 import PKCS7Options, PKCS7SignatureBuilder
from cryptography.x509.oid import NameOID

from onceward_apps.ticketing.codes import qr_payload
from onceward_apps.ticketing.errors import Invalid

PKPASS = "application/vnd.apple.pkpass"
SAVE_URL = "https://pay.google.com/gp/v/save/"
ICON_SIZES = {"icon.png": 29, "icon@2x.png": 58, "icon@3x.png": 87}
PURPLE = (29, 95, 208)
ENDS_AFTER = timedelta(hours=12)
"""How long after the end of the event a pass counts as over, and moves out of sight in the wallet."""


@dataclass(frozen=True, slots=True)
class AppleSigner:
    """The certificate of a pass type, its key, and Apple's intermediate certificate."""

    certificate: x509.Certificate
    intermediates: tuple[x509.Certificate, ...]
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    pass_type: str
    team: str

    @classmethod
    def from_pem(cls, pem: str) -> AppleSigner:
        """Read the private key and the certificates. Raises `Invalid`, which says what is missing."""
        try:
            key = load_pem_private_key(pem.encode(), password=None)
            certificates = x509.load_pem_x509_certificates(pem.encode())
        except ValueError as error:
            raise Invalid(f"apple_pass_pem needs a private key and certificates in PEM form: {error}") from None
        if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
            raise Invalid(f"apple_pass_pem has a key of the type {type(key).__name__}: Apple takes RSA and EC keys")
        own = [each for each in certificates if each.public_key() == key.public_key()]
        if len(own) != 1:
            raise Invalid("apple_pass_pem has no certificate of its private key: add the certificate of the pass type")
        others = tuple(each for each in certificates if each is not own[0])
        if not others:
            raise Invalid("apple_pass_pem lacks Apple's intermediate certificate (WWDR): add it")
        subject = own[0].subject
        return cls(own[0], others, key, _of(subject, NameOID.USER_ID), _of(subject, NameOID.ORGANIZATIONAL_UNIT_NAME))

    def sign(self, content: bytes) -> bytes:
        builder = PKCS7SignatureBuilder().set_data(content).add_signer(self.certificate, self.key, SHA256())
        for each in self.intermediates:
            builder = builder.add_certificate(each)
        return builder.sign(Encoding.DER, [PKCS7Options.DetachedSignature, PKCS7Options.Binary])


def apple_pass(signer: AppleSigner, ring: bytes, ticket: Any) -> bytes:
    """Return the pass of a ticket as a `.pkpass` file."""
    files = {"pass.json": orjson.dumps(_apple_content(signer, ring, ticket)), **_icons()}
    manifest = orjson.dumps({name: sha1(content, usedforsecurity=False).hexdigest() for name, content in files.items()})
    files |= {"manifest.json": manifest, "signature": signer.sign(manifest)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


def google_link(issuer: str, account: dict[str, Any], ring: bytes, ticket: Any, *, origin: str) -> str:
    """Return the link that saves the ticket in Google Wallet. `account` is the key file of a service account."""
    import jwt

    class_id = f"{issuer}.event-{ticket['event_id']}"
    claims = {
        "iss": account["client_email"],
        "aud": "google",
        "typ": "savetowallet",
        "iat": int(ticket["now"].timestamp()),
        "origins": [origin],
        "payload": {
            "eventTicketClasses": [_google_class(class_id, ticket)],
            "eventTicketObjects": [_google_object(f"{issuer}.ticket-{ticket['id']}", class_id, ring, ticket)],
        },
    }
    return SAVE_URL + jwt.encode(claims, account["private_key"], algorithm="RS256")


def _apple_content(signer: AppleSigner, ring: bytes, ticket: Any) -> dict[str, Any]:
    barcode = {
        "format": "PKBarcodeFormatQR",
        "message": qr_payload(ring, ticket["event_id"], ticket["ticket_code"]),
        "messageEncoding": "iso-8859-1",
        "altText": ticket["ticket_code"],
    }
    where = {"key": "place", "label": "Place", "value": ticket["place"]}
    venue = ", ".join(part for part in (ticket["venue_name"], ticket["venue_address"]) if part)
    return {
        "formatVersion": 1,
        "passTypeIdentifier": signer.pass_type,
        "teamIdentifier": signer.team,
        "serialNumber": str(ticket["id"]),
        "organizationName": ticket["organizer"],
        "description": f"Ticket for {ticket['event_name']}",
        "relevantDate": _local(ticket["starts_at"], ticket).isoformat(timespec="seconds"),
        "expirationDate": _local(ticket["ends_at"] + ENDS_AFTER, ticket).isoformat(timespec="seconds"),
        "voided": ticket["status"] == "void",
        "foregroundColor": "rgb(255, 255, 255)",
        "labelColor": "rgb(220, 230, 255)",
        "backgroundColor": "rgb({}, {}, {})".format(*PURPLE),
        "barcodes": [barcode],
        "eventTicket": {
            "primaryFields": [{"key": "event", "label": ticket["organizer"], "value": ticket["event_name"]}],
            "secondaryFields": [
                {
                    "key": "starts",
                    "label": "Starts",
                    "value": _local(ticket["starts_at"], ticket).isoformat(timespec="seconds"),
                    "dateStyle": "PKDateStyleMedium",
                    "timeStyle": "PKDateStyleShort",
                    "ignoresTimeZone": True,
                },
                where,
            ],
            "auxiliaryFields": [{"key": "venue", "label": "Venue", "value": venue}],
            "backFields": [{"key": "code", "label": "Ticket code", "value": ticket["ticket_code"]}],
        },
    }


def _google_class(class_id: str, ticket: Any) -> dict[str, Any]:
    return {
        "id": class_id,
        "issuerName": ticket["organizer"],
        "reviewStatus": "UNDER_REVIEW",
        "eventName": _text(ticket["event_name"]),
        "venue": {
            "name": _text(ticket["venue_name"]),
            "address": _text(ticket["venue_address"] or ticket["venue_name"]),
        },
        "dateTime": {
            "start": _local(ticket["starts_at"], ticket).isoformat(timespec="seconds"),
            "end": _local(ticket["ends_at"], ticket).isoformat(timespec="seconds"),
        },
    }


def _google_object(object_id: str, class_id: str, ring: bytes, ticket: Any) -> dict[str, Any]:
    place = {"seat": _text(ticket["label"])} if ticket["label"] else {}
    return {
        "id": object_id,
        "classId": class_id,
        "state": "EXPIRED" if ticket["status"] == "void" else "ACTIVE",
        "ticketNumber": ticket["ticket_code"],
        "ticketHolderName": ticket["holder_name"],
        "seatInfo": {"section": _text(ticket["section"]), **place},
        "barcode": {
            "type": "QR_CODE",
            "value": qr_payload(ring, ticket["event_id"], ticket["ticket_code"]),
            "alternateText": ticket["ticket_code"],
        },
    }


def _text(value: str) -> dict[str, Any]:
    return {"defaultValue": {"language": "en", "value": value}}


def _local(at: datetime, ticket: Any) -> datetime:
    return at.astimezone(ZoneInfo(ticket["timezone"]))


def _of(subject: x509.Name, oid: x509.ObjectIdentifier) -> str:
    values = subject.get_attributes_for_oid(oid)
    if not values:
        raise Invalid(f"the certificate of apple_pass_pem has no {oid._name}: it is not one of a pass type")
    return str(values[0].value)


@cache
def _icons() -> dict[str, bytes]:
    """Draw the icons, which every pass must have: a ticket on a plain ground."""
    from PIL import Image, ImageDraw

    files: dict[str, bytes] = {}
    for name, size in ICON_SIZES.items():
        image = Image.new("RGB", (size, size), PURPLE)
        edge = size // 5
        ImageDraw.Draw(image).rounded_rectangle(
            (edge, size // 3, size - edge, size - size // 3), radius=size // 12, fill=(255, 255, 255)
        )
        out = io.BytesIO()
        image.save(out, format="PNG")
        files[name] = out.getvalue()
    return files
