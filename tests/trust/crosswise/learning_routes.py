"""The routes of the learning platform, and how to ask them for something of another organization."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.trust.crosswise.routes import Ask


def day(number: int) -> str:
    """Return a time within the cohorts of the organizations, which begin in thirty days."""
    return (datetime.now(UTC) + timedelta(days=number)).isoformat()


L = "/api/v1/learning"
P = f"{L}/public"
S = f"{L}/student"
AS_STUDENT = {"Authorization": "Bearer @student_jwt"}
COHORT = {"cohort_id": "$cohort"}
ENROLLED = {"enrollment_id": "$enrollment"}
MESSAGE = {**COHORT, "message_id": "$chat_message"}
PERSON = {"email": "somebody@example.org", "name": "n"}
NEW = {
    "name": "new",
    "starts_at": "2031-01-01T09:00:00Z",
    "ends_at": "2031-02-01T09:00:00Z",
    "max_capacity": 3,
    "price": 0,
    "currency": "EUR",
}
WHY = {"reason": "a test"}
WORK = f"{S}/enrollments/{{enrollment_id}}/items/{{item_id}}"

LEARNING: dict[tuple[str, str], Ask] = {
    ("GET", f"{L}/cohorts"): Ask(),
    ("POST", f"{L}/cohorts"): Ask(json=NEW),
    ("GET", f"{L}/cohorts/{{cohort_id}}"): Ask(fill=COHORT),
    ("GET", f"{L}/cohorts/{{cohort_id}}/enrollments"): Ask(fill=COHORT),
    ("GET", f"{L}/cohorts/{{cohort_id}}/waitlist"): Ask(fill=COHORT),
    ("GET", f"{L}/enrollments/{{enrollment_id}}"): Ask(fill=ENROLLED),
    ("GET", f"{L}/surveys"): Ask(blank=True),
    ("GET", f"{L}/metrics/daily"): Ask(blank=True),
    ("POST", f"{L}/cohorts/{{cohort_id}}/capacity"): Ask(fill=COHORT, json={"max_capacity": 9}),
    ("POST", f"{L}/cohorts/{{cohort_id}}/enrollments"): Ask(fill=COHORT, json={"email": "scholar@example.org", **WHY}),
    ("POST", f"{L}/cohorts/{{cohort_id}}/sessions"): Ask(
        fill=COHORT, json={"title": "t", "starts_at": day(40), "ends_at": day(41)}
    ),
    ("PUT", f"{L}/sessions/{{session_id}}"): Ask(
        fill={"session_id": "$session"}, json={"title": "t", "starts_at": day(42), "ends_at": day(43)}
    ),
    ("PUT", f"{L}/sessions/{{session_id}}/recording"): Ask(
        fill={"session_id": "$session"}, json={"url": "https://video.example/1"}
    ),
    ("POST", f"{L}/sessions/{{session_id}}/cancel"): Ask(fill={"session_id": "$session"}),
    ("POST", f"{L}/cohorts/{{cohort_id}}/items"): Ask(fill=COHORT, json={"kind": "quiz", "title": "t"}),
    ("POST", f"{L}/waitlist/{{entry_id}}/priority"): Ask(fill={"entry_id": "$waiting"}, json={"priority": 5}),
    ("POST", f"{L}/users"): Ask(json={"email": "new@example.org"}),
    ("PATCH", f"{L}/users/{{user_id}}"): Ask(fill={"user_id": "$student"}, json={"locale": "en"}),
    ("POST", f"{L}/enrollments/{{enrollment_id}}/attendance"): Ask(
        fill=ENROLLED, json={"session_id": "$session", "attended": True, **WHY}
    ),
    ("POST", f"{L}/enrollments/{{enrollment_id}}/move"): Ask(
        fill=ENROLLED, json={"cohort_id": "$draft", **WHY}, refused=True
    ),
    ("PUT", f"{L}/surveys/{{survey_id}}"): Ask(fill={"survey_id": "s"}, json={"kind": "exit"}),
    ("GET", f"{L}/refunds"): Ask(),
    # Visitors.
    ("GET", f"{P}/cohorts/{{cohort_id}}"): Ask(fill=COHORT, shows="public"),
    ("POST", f"{P}/cohorts/{{cohort_id}}/checkout"): Ask(
        fill={"cohort_id": "$draft"}, json=PERSON, shows="public", refused=True
    ),
    ("POST", f"{P}/cohorts/{{cohort_id}}/waitlist"): Ask(
        fill={"cohort_id": "$draft"}, json=PERSON, shows="public", refused=True
    ),
    ("GET", f"{P}/cohorts/{{cohort_id}}/discount"): Ask(
        fill={"cohort_id": "$draft"}, query={"code": "SPRING-31"}, shows="public", refused=True
    ),
    ("POST", f"{P}/seats/{{token}}"): Ask(fill={"token": "x" * 43}, json=PERSON, shows="nothing"),
    ("POST", f"{P}/cohorts/{{cohort_id}}/views"): Ask(
        fill={"cohort_id": "@cohort"}, json={"path": "/learn"}, shows="public"
    ),
    ("POST", f"{P}/extensions/{{token}}/checkout"): Ask(fill={"token": "$enrollment.forged"}, refused=True),
    ("POST", f"{P}/sign-in"): Ask(json={"email": "nobody@example.org"}, shows="nothing"),
    ("POST", f"{P}/session"): Ask(json={"token": "x" * 43}, shows="nothing"),
    ("DELETE", f"{P}/session"): Ask(shows="nothing"),
    ("GET", f"{P}/certificates/{{credential_id}}"): Ask(fill={"credential_id": "@credential"}),
    # Students, each with a token of their own organization.
    ("GET", f"{S}/me"): Ask(headers=AS_STUDENT),
    ("PATCH", f"{S}/me"): Ask(headers=AS_STUDENT, json={"locale": "en"}),
    ("GET", f"{S}/enrollments/{{enrollment_id}}/content"): Ask(fill=ENROLLED, headers=AS_STUDENT),
    ("GET", f"{S}/enrollments/{{enrollment_id}}/items/{{item_id}}"): Ask(
        fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT
    ),
    ("PUT", f"{S}/enrollments/{{enrollment_id}}/items/{{item_id}}"): Ask(
        fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT, json={"done": True}
    ),
    ("GET", f"{WORK}/questions"): Ask(fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT, blank=True),
    ("POST", f"{WORK}/answers"): Ask(
        fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT, json={"answers": {}}, refused=True
    ),
    ("GET", f"{WORK}/submission"): Ask(fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT, refused=True),
    ("PUT", f"{WORK}/submission"): Ask(
        fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT, json={"text": "x"}, refused=True
    ),
    ("POST", f"{WORK}/files"): Ask(
        fill={**ENROLLED, "item_id": "$item"}, headers=AS_STUDENT, query={"name": "x"}, refused=True
    ),
    ("GET", f"{WORK}/files/{{file_id}}"): Ask(
        fill={**ENROLLED, "item_id": "$item", "file_id": "$item"}, headers=AS_STUDENT, refused=True
    ),
    ("DELETE", f"{WORK}/files/{{file_id}}"): Ask(
        fill={**ENROLLED, "item_id": "$item", "file_id": "$item"}, headers=AS_STUDENT, refused=True
    ),
    ("GET", "/learn/submissions/files/{file_id}"): Ask(fill={"file_id": "$item"}, refused=True),
    ("GET", f"{S}/cohorts/{{cohort_id}}/chat"): Ask(fill=COHORT, headers=AS_STUDENT),
    ("POST", f"{S}/cohorts/{{cohort_id}}/chat"): Ask(fill=COHORT, headers=AS_STUDENT, json={"message": "hello"}),
    ("PATCH", f"{S}/cohorts/{{cohort_id}}/chat/{{message_id}}"): Ask(
        fill=MESSAGE, headers=AS_STUDENT, json={"message": "changed"}
    ),
    ("POST", f"{S}/cohorts/{{cohort_id}}/chat/{{message_id}}/reactions"): Ask(
        fill=MESSAGE, headers=AS_STUDENT, json={"emoji": "👍"}
    ),
    ("POST", f"{S}/cohorts/{{cohort_id}}/chat/read"): Ask(fill=COHORT, headers=AS_STUDENT, json={"message_id": 1}),
    ("POST", f"{S}/cohorts/{{cohort_id}}/presence"): Ask(fill=COHORT, headers=AS_STUDENT, json={}),
    ("DELETE", f"{S}/cohorts/{{cohort_id}}/chat/{{message_id}}"): Ask(fill=MESSAGE, headers=AS_STUDENT),
    # Pages.
    ("GET", "/learn"): Ask(shows="public", refused=True),
    ("GET", "/learn/o/{slug}"): Ask(fill={"slug": "$slug"}, shows="public"),
    ("GET", "/learn/cohorts/{cohort_id}"): Ask(fill=COHORT, shows="public"),
    ("GET", "/learn/cohorts/{cohort_id}/prep"): Ask(fill=COHORT, headers=AS_STUDENT),
    ("GET", "/learn/invites/{token}"): Ask(fill={"token": "x" * 43}, shows="nothing"),
    ("GET", "/learn/seats/{token}"): Ask(fill={"token": "x" * 43}, shows="nothing"),
    ("GET", "/learn/extensions/{token}"): Ask(fill={"token": "$enrollment.forged"}, refused=True),
    ("GET", "/learn/certificates/{credential_id}"): Ask(fill={"credential_id": "@credential"}),
    ("GET", "/learn/certificates/{credential_id}/certificate.pdf"): Ask(
        fill={"credential_id": "@credential"}, blank=True
    ),
    ("GET", "/learn/certificates/{credential_id}/badge.jwt"): Ask(fill={"credential_id": "@credential"}, blank=True),
    ("GET", "/learn/certificates"): Ask(shows="nothing"),
    ("GET", "/learn/issuers/{organization_id}/status/{number}"): Ask(
        fill={"organization_id": "@school", "number": "0"}, blank=True
    ),
    ("GET", "/learn/issuers/{organization_id}/keys"): Ask(fill={"organization_id": "@school"}, blank=True),
    ("GET", "/learn/issuers/{organization_id}/keys/{key_id}"): Ask(
        fill={"organization_id": "@school", "key_id": "x"}, blank=True, refused=True
    ),
    ("GET", "/learn/static/{name}"): Ask(fill={"name": "$slug"}, shows="nothing", refused=True),
    ("GET", "/learn/sign-in"): Ask(shows="nothing"),
    ("GET", "/learn/sign-in/{token}"): Ask(fill={"token": "x" * 43}, shows="nothing"),
    ("GET", "/learn/check-mail"): Ask(shows="nothing"),
    ("GET", "/learn/enrolled/{checkout_id}"): Ask(fill={"checkout_id": "$enrollment"}, refused=True),
    ("GET", "/learn/calendars/{token}.ics"): Ask(fill={"token": "$enrollment.forged"}, refused=True),
    ("GET", "/learn/home"): Ask(headers=AS_STUDENT),
    ("GET", "/learn/home/{enrollment_id}"): Ask(fill=ENROLLED, headers=AS_STUDENT),
    ("GET", "/learn/home/{enrollment_id}/calendar.ics"): Ask(fill=ENROLLED, headers=AS_STUDENT),
    # The last ones: they end what the others ask for.
    ("POST", f"{L}/enrollments/{{enrollment_id}}/certificate/reissue"): Ask(
        fill=ENROLLED, json=WHY, refused=True
    ),  # it has the right name
    ("POST", f"{L}/enrollments/{{enrollment_id}}/certificate/revoke"): Ask(fill=ENROLLED, json=WHY),
    ("POST", f"{L}/refunds/{{refund_id}}/retry"): Ask(
        fill={"refund_id": "$course_refund"}, refused=True
    ),  # a button has done it before
    ("POST", f"{L}/enrollments/{{enrollment_id}}/refund"): Ask(fill=ENROLLED, json=WHY),
    ("POST", f"{L}/cohorts/{{cohort_id}}/status"): Ask(
        fill=COHORT, json={"status": "COMPLETED"}, refused=True
    ),  # it has a session ahead
}
