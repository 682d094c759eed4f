"""A temporary certificate authority, for a simulator that signs with certificates."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class AuthoritySigner:
    """The certificate of one host under a temporary root. Only a receiver configured with this root trusts it."""

    host: str

    @cached_property
    def _root_key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def _leaf_key(self) -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    @cached_property
    def root_pem(self) -> str:
        return self._root.public_bytes(Encoding.PEM).decode("ascii")

    @cached_property
    def certificate_pem(self) -> str:
        return self._leaf.public_bytes(Encoding.PEM).decode("ascii")

    @property
    def key_pem(self) -> str:
        """The private key of the host, for a TLS server with this certificate."""
        return self._leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")

    def sign(self, content: bytes) -> bytes:
        return self._leaf_key.sign(content, padding.PKCS1v15(), hashes.SHA256())

    @cached_property
    def _root(self) -> x509.Certificate:
        return (
            self._builder("Simulated authority", self._root_key)
            .issuer_name(_name("Simulated authority"))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(authority=True), critical=True)
            .sign(self._root_key, hashes.SHA256())
        )

    @cached_property
    def _leaf(self) -> x509.Certificate:
        return (
            self._builder(self.host, self._leaf_key)
            .issuer_name(self._root.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(authority=False), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(self.host)]), critical=False)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .sign(self._root_key, hashes.SHA256())
        )

    def _builder(self, name: str, key: rsa.RSAPrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._root_key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + 365 * _DAY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(issuer_key, critical=False)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
