"""What trust refuses, by name. The HTTP status is chosen in `onceward.web`.

TrustError
├── NotAuthenticated      nobody we know: no credential, or one that is wrong, expired or revoked
├── NotAllowed            somebody we know, who may not do this
├── TooManyFailures       too many wrong credentials from one place
├── UnknownOrganization   no organization of that id
├── AlreadyActing         the transaction already acts for another organization
├── UserDisabled          an account that an administrator has disabled
├── SecretError
│   ├── BadSecretKey      an encryption key that cannot be used
│   ├── UnknownSecretKey  sealed under a key that is not configured
│   └── Tampered          changed, or sealed for another table, row or column
└── NotFound              what was asked for does not exist, or not for this organization
"""

from __future__ import annotations


class TrustError(Exception):
    """Anything this package raises by itself."""


class NotAuthenticated(TrustError):
    """The message is for logs; the caller is told no more than that it failed."""


class NotAllowed(TrustError):
    """Says which scope is missing."""


class TooManyFailures(TrustError):
    """Try again in `retry_after_s`."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many failed attempts to authenticate: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class UnknownOrganization(TrustError):
    """Names what was asked for."""


class AlreadyActing(TrustError):
    """A transaction belongs to one organization: what must happen for another is a job of its own."""


class UserDisabled(TrustError):
    """Only an administrator of the instance enables the account again."""


class SecretError(TrustError):
    """Anything about sealed values; never says what they hold."""


class BadSecretKey(SecretError):
    """Too short, or none at all."""


class UnknownSecretKey(SecretError):
    """Add the old key behind the new one in ONCEWARD_SECRET_KEY until `onceward secrets rotate` has run."""


class Tampered(SecretError):
    """The value does not belong where it was found, or was changed there."""


class NotFound(TrustError):
    """Also said of what exists for another organization only."""
