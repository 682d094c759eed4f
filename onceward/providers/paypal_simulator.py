"""A source that stands in for PayPal where PayPal cannot reach: its own authority, certificate and key."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from onceward.providers.inbound import SourceConfig

CERTIFICATE_URL = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-simulated"
_HOST = "messageverificationcerts.sandbox.paypal.com"


def simulated_source(webhook_id: str = "SIMULATED") -> SourceConfig:
    """A PayPal source that trusts an authority made on the spot, and can therefore sign as PayPal.

    Nothing PayPal signs passes it, and nothing it signs passes a real source.
    """
    authority_key, leaf_key = _key(), _key()
    authority = _certificate("Onceward simulated authority", authority_key, authority_key, is_authority=True)
    leaf = _certificate(_HOST, leaf_key, authority_key, issuer=authority.subject)
    secret = leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return SourceConfig(
        provider="paypal",
        secrets=(secret,),
        options={
            "webhook_id": webhook_id,
            "roots_pem": authority.public_bytes(Encoding.PEM).decode(),
            "certificates": {CERTIFICATE_URL: leaf.public_bytes(Encoding.PEM).decode()},
        },
    )


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _certificate(
    name: str,
    key: rsa.RSAPrivateKey,
    signer: rsa.RSAPrivateKey,
    *,
    issuer: x509.Name | None = None,
    is_authority: bool = False,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer or subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if is_authority:
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    else:
        builder = (
            builder.add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        )
    return builder.sign(signer, hashes.SHA256())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
