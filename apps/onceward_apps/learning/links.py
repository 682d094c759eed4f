"""The addresses of the pages that mails and payment pages link to."""

from __future__ import annotations

from uuid import UUID

from onceward_apps.learning.app import app


def _page(path: str) -> str:
    return f"{app.services.settings.url}/learn/{path}"


def cohort(cohort_id: UUID) -> str:
    return _page(f"cohorts/{cohort_id}")


def prep(cohort_id: UUID) -> str:
    return _page(f"cohorts/{cohort_id}/prep")


def invite(token: str) -> str:
    return _page(f"invites/{token}")


def seats(token: str) -> str:
    """Return the page on which people of a company take its seats."""
    return _page(f"seats/{token}")


def extension(token: str) -> str:
    return _page(f"extensions/{token}")


def home(enrollment_id: UUID | None = None) -> str:
    return _page("home" if enrollment_id is None else f"home/{enrollment_id}")


def enrolled(checkout_id: UUID) -> str:
    """Return the page that a person sees after paying."""
    return _page(f"enrolled/{checkout_id}")


def calendar(token: str) -> str:
    return _page(f"calendars/{token}.ics")


def check_mail() -> str:
    return _page("check-mail")


def sign_in(token: str) -> str:
    return _page(f"sign-in/{token}")


def sessions(enrollment_id: UUID) -> str:
    return _page(f"home/{enrollment_id}#sessions-title")


def students(cohort_id: UUID) -> str:
    """Return the address of the list of a cohort's students, for callers of the API."""
    return f"{app.services.settings.url}/api/v1/learning/cohorts/{cohort_id}/enrollments"


def certificate(credential_id: str) -> str:
    """Return the page on which anybody verifies a certificate."""
    return _page(f"certificates/{credential_id}")


def status_list(organization: UUID, number: int) -> str:
    """Return the list that says which badges of an organization are not valid any more."""
    return _page(f"issuers/{organization}/status/{number}")


def issuer(organization: UUID) -> str:
    """Return the id of an organization as an issuer of badges."""
    return _page(f"issuers/{organization}")


def badge_key(organization: UUID, key_id: str) -> str:
    return _page(f"issuers/{organization}/keys/{key_id}")
