"""Certificate chains of signers: read, and proven down to a root for one domain at one moment."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from onceward.providers.inbound.provider import ConfigError, Rejected


@dataclass(frozen=True, slots=True)
class TrustedRoots:
    """The certificates a chain may end at."""

    store: Store


@dataclass(frozen=True, slots=True)
class Chain:
    """A signer's certificate and those between it and a root."""

    leaf: x509.Certificate
    intermediates: tuple[x509.Certificate, ...]

    @staticmethod
    def read(pem: bytes) -> Chain:
        """The chain in a PEM file, leaf first. Rejected if there is none."""
        return _read_chain(pem)

    def check(self, roots: TrustedRoots, domain: str, now: datetime) -> None:
        """Return if the chain ends at a root, was valid at `now` and belongs to a host of `domain`."""
        name = self._name_within(domain)
        builder = PolicyBuilder().store(roots.store).time(now.replace(tzinfo=None)).max_chain_depth(4)
        try:
            builder.build_server_verifier(x509.DNSName(name)).verify(self.leaf, list(self.intermediates))
        except (VerificationError, ValueError) as error:
            raise Rejected("bad_certificate", f"the certificate is not trusted: {type(error).__name__}") from None

    def _name_within(self, domain: str) -> str:
        try:
            extension = self.leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            names = extension.value.get_values_for_type(x509.DNSName)
        except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
            names = []
        for name in names:
            # A wildcard is proven by any name under it.
            concrete = name.lower().replace("*.", "signer.", 1)
            if concrete.endswith(f".{domain}"):
                return concrete
        raise Rejected("bad_certificate", f"the certificate is not for a host of {domain}")


@lru_cache(maxsize=8)
def read_roots(pem: str) -> TrustedRoots:
    """Roots from PEM text. ConfigError if there are none."""
    try:
        return TrustedRoots(Store(x509.load_pem_x509_certificates(pem.encode())))
    except ValueError:
        raise ConfigError("option roots_pem holds no PEM certificates") from None


@lru_cache(maxsize=8)
def system_roots(organization: str) -> TrustedRoots:
    """The roots of one organization among those this system trusts."""
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    # Most are another's, and a few of those too odd to be read at all.
    likely = (x509.load_der_x509_certificate(der) for der in trusted if organization.encode() in der)
    roots = [root for root in likely if _is_of(root, organization)]
    if not roots:
        raise Rejected("bad_certificate", f"no root of {organization} on this system: set option roots_pem")
    return TrustedRoots(Store(roots))


@lru_cache(maxsize=64)
def _read_chain(pem: bytes) -> Chain:
    try:
        leaf, *intermediates = x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise Rejected("bad_certificate", "what was fetched is not a PEM certificate") from None
    return Chain(leaf, tuple(intermediates))


def _is_of(root: x509.Certificate, organization: str) -> bool:
    names = root.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return any(str(name.value).startswith(organization) for name in names)
