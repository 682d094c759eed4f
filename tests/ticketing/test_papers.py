"""PDF tickets and wallet passes, in the formats that Apple and Google read."""

from __future__ import annotations

import base64
import io
import subprocess
import zipfile
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from onceward_apps.ticketing import invoice_pdf, wallets
from onceward_apps.ticketing.codes import read_presented
from onceward_apps.ticketing.errors import Invalid

pytestmark = pytest.mark.acceptance("papers")
RING = bytes(range(32))
NOW = datetime(2031, 6, 21, 16, 0, tzinfo=UTC)
TICKET = {
    "id": uuid4(),
    "event_id": uuid4(),
    "ticket_code": "3KQR-7F92-4M1X",
    "status": "active",
    "label": "Stalls A1",
    "section": "Stalls",
    "place": "Stalls A1",
    "holder_name": "Zoë Čapek",
    "event_name": "Open Air Night",
    "organizer": "Riverside",
    "venue_name": "Riverside Stage",
    "venue_address": "1 Quay",
    "timezone": "Africa/Johannesburg",
    "starts_at": NOW,
    "ends_at": NOW + timedelta(hours=3),
    "now": NOW,
}


def certificate(
    key: Any, issuer_key: Any, subject: list[tuple[Any, str]], issuer: list[tuple[Any, str]], ca: bool
) -> Any:
    def name(parts: list[tuple[Any, str]]) -> x509.Name:
        return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])

    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    return builder.sign(issuer_key, SHA256())


@pytest.fixture(scope="module")
def pem() -> tuple[str, str]:
    """A key, certificate and intermediate as Apple issues them, and the intermediate alone."""
    ca_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    apple = [(NameOID.COMMON_NAME, "Apple Worldwide Developer Relations (test)")]
    own = [
        (NameOID.USER_ID, "pass.example.tickets"),
        (NameOID.COMMON_NAME, "Pass Type ID: pass.example.tickets"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "ABCDE12345"),
    ]
    ca = certificate(ca_key, ca_key, apple, apple, True).public_bytes(Encoding.PEM).decode()
    mine = certificate(key, ca_key, own, apple, False).public_bytes(Encoding.PEM).decode()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return private + mine + ca, ca


def test_an_apple_pass_has_its_files_hashes_and_a_signature_that_openssl_accepts(
    pem: tuple[str, str], tmp_path: Path
) -> None:
    signer = wallets.AppleSigner.from_pem(pem[0])
    with zipfile.ZipFile(io.BytesIO(wallets.apple_pass(signer, RING, TICKET))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert {"pass.json", "manifest.json", "signature", "icon.png", "icon@2x.png"} <= set(files)
    listed = orjson.loads(files["manifest.json"])
    assert listed == {
        name: sha1(content).hexdigest() for name, content in files.items() if name not in ("manifest.json", "signature")
    }
    for name in ("manifest.json", "signature"):
        (tmp_path / name).write_bytes(files[name])
    (tmp_path / "ca.pem").write_text(pem[1])
    words = "openssl smime -verify -binary -inform DER -in signature -content manifest.json -CAfile ca.pem -purpose any"
    subprocess.run(words.split(), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "manifest.json").write_bytes(files["manifest.json"] + b" ")
    assert subprocess.run(words.split(), cwd=tmp_path, check=False, capture_output=True).returncode != 0
    content = orjson.loads(files["pass.json"])
    assert (content["passTypeIdentifier"], content["teamIdentifier"]) == ("pass.example.tickets", "ABCDE12345")
    assert content["relevantDate"] == "2031-06-21T18:00:00+02:00"
    read = read_presented(RING, TICKET["event_id"], content["barcodes"][0]["message"])
    assert read is not None
    assert read.genuine


def test_what_is_missing_of_the_apple_key_is_named(pem: tuple[str, str]) -> None:
    for text, words in ((pem[1], "private key"), (pem[0].replace(pem[1], ""), "intermediate"), ("x", "PEM")):
        with pytest.raises(Invalid, match=words):
            wallets.AppleSigner.from_pem(text)


def test_a_google_link_is_signed_by_the_service_account_and_has_the_ticket_inside() -> None:
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {"client_email": "tickets@project.iam.gserviceaccount.com", "private_key": private}
    link = wallets.google_link("3388000000012345678", account, RING, TICKET, origin="https://tickets.example")
    assert link.startswith("https://pay.google.com/gp/v/save/")
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    token = link.removeprefix(wallets.SAVE_URL)
    claims = jwt.decode(token, public, algorithms=["RS256"], audience="google", options={"verify_iat": False})
    assert (claims["iss"], claims["typ"]) == (account["client_email"], "savetowallet")
    [made], [of] = claims["payload"]["eventTicketObjects"], claims["payload"]["eventTicketClasses"]
    assert made["classId"] == of["id"] == f"3388000000012345678.event-{TICKET['event_id']}"
    assert made["state"] == "ACTIVE"
    assert read_presented(RING, TICKET["event_id"], made["barcode"]["value"]) is not None
    assert base64.urlsafe_b64decode(token.split(".")[0] + "==")


def test_printed_tickets_have_one_page_each() -> None:
    content = invoice_pdf.tickets(RING, [TICKET, {**TICKET, "label": None, "place": "Stalls", "holder_name": ""}])
    assert content.startswith(b"%PDF")
    assert content.count(b"/Type /Page\n") == 2
