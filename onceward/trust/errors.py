"""The exceptions of trust. `onceward.web` chooses their HTTP status.

TrustError
├── NotAuthenticated      the credential is missing, wrong, expired or revoked
│   └── SecondFactorRequired  the session has not used its second factor yet
├── NotAllowed            the caller is known but does not have the required scope
│   └── ConfirmationRequired  the person must prove who they are again
├── TooManyFailures       too many wrong credentials from one client address
├── UnknownOrganization   the organization does not exist
├── AlreadyActing         the transaction already acts for another organization
├── UserDisabled          an administrator has disabled the account
├── SecretError
│   ├── BadSecret         the name or the value of a secret is not acceptable
│   ├── BadSecretKey      an encryption key is missing or too short
│   ├── UnknownSecretKey  a value is encrypted with a key that is not configured
│   └── Tampered          a value was changed, or encrypted for another table, row or column
└── NotFound              the object does not exist, or belongs to another organization
"""

from __future__ import annotations

from onceward.errors import OncewardError


class TrustError(OncewardError):
    """Base class of all exceptions of this package."""


class NotAuthenticated(TrustError):
    """The credential was rejected. The message is for logs only; the response does not contain it."""


class NotAllowed(TrustError):
    """The caller does not have the required scope, which the message names."""


class SecondFactorRequired(NotAuthenticated):
    """The session is valid, but its second factor is missing. `enrolled` says whether the person has one."""

    def __init__(self, *, enrolled: bool) -> None:
        super().__init__(
            "this session still needs its second factor: sign in at /login/second-factor"
            if enrolled
            else "a second factor is required here and you have none: add one at /dashboard/account"
        )
        self.enrolled = enrolled


class ConfirmationRequired(NotAllowed):
    """The last proof of identity is too old for a sensitive change. The person can repeat it at `/login/confirm`."""

    def __init__(self) -> None:
        super().__init__("this needs a recent proof of who you are: confirm it at /login/confirm and try again")


class TooManyFailures(TrustError):
    """The client sent too many wrong credentials and may try again in `retry_after_s` seconds."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(f"too many failed attempts to authenticate: try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class UnknownOrganization(TrustError):
    """The organization, which the message names, does not exist."""


class AlreadyActing(TrustError):
    """The transaction already acts for another organization. Enqueue a job to act for a second one."""


class UserDisabled(TrustError):
    """The account is disabled. Only an administrator of the instance can enable it again."""


class SecretError(TrustError):
    """Base class of errors about encrypted values. The message never contains the value."""


class BadSecret(SecretError):
    """The name or the value of a secret is not acceptable. The message names the rule, never the value."""


class BadSecretKey(SecretError):
    """An encryption key is missing or too short."""


class UnknownSecretKey(SecretError):
    """The key of a value is not configured.

    Keep the old key after the new one in ONCEWARD_SECRET_KEY until `onceward secrets rotate` has run.
    """


class Tampered(SecretError):
    """The encrypted value was changed, or copied from another table, row or column."""


class ChainRewritten(TrustError):
    """Somebody has deleted or replaced links of the audit chain."""


class NotFound(TrustError):
    """The object does not exist, or belongs to another organization."""
