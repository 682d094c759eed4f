"""Read the certificate chain of a signer and verify it up to a trusted root, for one domain and one time."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from onceward.lazy import lazy_module
from onceward.webhooks.provider import ConfigError, Rejected

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.x509 import verification
else:
    x509 = lazy_module("cryptography.x509")
    verification = lazy_module("cryptography.x509.verification")


@dataclass(frozen=True, slots=True)
class TrustedRoots:
    """The root certificates that a chain may end at."""

    store: verification.Store


@dataclass(frozen=True, slots=True)
class Chain:
    """A signer's certificate and the intermediate certificates between it and a root."""

    leaf: x509.Certificate
    intermediates: tuple[x509.Certificate, ...]

    @staticmethod
    def read(pem: bytes) -> Chain:
        """Read a chain from PEM, leaf first. Raise Rejected if there is none."""
        return _read_chain(pem)

    def check(self, roots: TrustedRoots, domain: str, now: datetime) -> None:
        """Raise Rejected unless the chain ends at a root, is valid at `now` and belongs to a host of `domain`."""
        name = self._name_within(domain)
        builder = verification.PolicyBuilder().store(roots.store).time(now.replace(tzinfo=None)).max_chain_depth(4)
        try:
            builder.build_server_verifier(x509.DNSName(name)).verify(self.leaf, list(self.intermediates))
        except (verification.VerificationError, ValueError) as error:
            raise Rejected("bad_certificate", f"the certificate is not trusted: {type(error).__name__}") from None

    def _name_within(self, domain: str) -> str:
        try:
            extension = self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            names = extension.value.get_values_for_type(x509.DNSName)
        except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
            names = []
        for name in names:
            # Any name under a wildcard proves the wildcard.
            concrete = name.lower().replace("*.", "signer.", 1)
            if concrete.endswith(f".{domain}"):
                return concrete
        raise Rejected("bad_certificate", f"the certificate is not for a host of {domain}")


@lru_cache(maxsize=8)
def read_roots(pem: str) -> TrustedRoots:
    """Read roots from PEM text. Raise ConfigError if there are none."""
    try:
        return TrustedRoots(verification.Store(x509.load_pem_x509_certificates(pem.encode())))
    except ValueError:
        raise ConfigError("option roots_pem contains no PEM certificates") from None


@lru_cache(maxsize=8)
def system_roots(organization: str) -> TrustedRoots:
    """Return the roots of one organization that this system trusts."""
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    # Skip the roots of others before parsing: a few of them cannot be parsed.
    likely = (x509.load_der_x509_certificate(der) for der in trusted if organization.encode() in der)
    roots = [root for root in likely if _is_of(root, organization)]
    if not roots:
        raise Rejected(
            "bad_certificate", f"this system has no root certificate of {organization}: set option roots_pem"
        )
    return TrustedRoots(verification.Store(roots))


@lru_cache(maxsize=64)
def _read_chain(pem: bytes) -> Chain:
    try:
        leaf, *intermediates = x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise Rejected("bad_certificate", "the fetched file is not a PEM certificate") from None
    return Chain(leaf, tuple(intermediates))


def _is_of(root: x509.Certificate, organization: str) -> bool:
    names = root.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    return any(str(name.value).startswith(organization) for name in names)
