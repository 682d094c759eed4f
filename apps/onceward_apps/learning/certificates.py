"""Certificates: one rule, checked on the exit survey, when the cohort completes, and every day for all that are open.

A certificate is unique per enrolment, so the three checks can overlap. Its snapshot keeps the names and percentages of
the time of issue. A full refund revokes it: the verify page says so. After a corrected name a new certificate replaces
it, because badges that were downloaded carry the old name.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any
from uuid import UUID, uuid4

from onceward import Job, Permanent, Tx
from onceward_apps.learning import activity, certificate_pdf, links, users
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.metrics import CERTIFICATES
from onceward_apps.learning.progress import Standing
from onceward_apps.learning.store import certificates as rows
from onceward_apps.learning.student_mails import mail

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Without I, L, O and U, which are easily misread."""
BATCH = 100


def new_credential_id() -> str:
    """Return an id with 80 random bits, such as `OW-7F3K-Q2M9-XC41-00ZR`: nobody can guess one or count them."""
    groups = ["".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(4)]
    return "-".join(("OW", *groups))


def is_erased(certificate: Any) -> bool:
    """Whether the student's data was erased: the certificate names nobody any more."""
    return bool(certificate["snapshot"].get("erased"))


async def standing(tx: Tx, enrollment_id: UUID) -> Standing:
    found = await rows.standing(tx, enrollment_id)
    if found is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    return found


async def check(tx: Tx, enrollment_id: UUID) -> str | None:
    """Issue the certificate if everything that it needs is there. Returns the credential id of a new certificate."""
    found = await standing(tx, enrollment_id)
    if not found.is_eligible:
        return None
    ids, names = await rows.ids_of(tx, enrollment_id), await rows.names(tx, enrollment_id)
    credential_id = new_credential_id()
    url = links.certificate(credential_id)
    snapshot = {
        "studentName": names["name"],
        "cohortName": names["cohort_name"],
        "organizationName": names["organization_name"],
        "startDate": names["starts_at"].isoformat(),
        "endDate": names["ends_at"].isoformat(),
        "completionPercentage": found.completion,
        "attendancePercentage": found.attendance,
    }
    row = await rows.issue(
        tx, enrollment_id, ids["user_id"], ids["cohort_id"], credential_id=credential_id, url=url, snapshot=snapshot
    )
    if row is None:
        return None
    tx.after_commit(CERTIFICATES.inc)
    await tx.enqueue(render_certificate.unique(f"certificate:{row['id']}"), certificate_id=row["id"])
    payload = {
        "certificateId": row["id"],
        "userId": ids["user_id"],
        "userEmail": names["email"],
        "userName": names["name"],
        "cohortName": names["cohort_name"],
        "issuedAt": row["issued_at"],
        "certificateUrl": url,
        "credentialId": credential_id,
        "completionPercentage": found.completion,
    }
    await tx.publish("certificate.issued", payload, key=f"certificate:{row['id']}")
    data = {"name": names["name"], "cohortName": names["cohort_name"], "certificateUrl": url}
    data["credentialId"] = credential_id
    await mail(tx, "certificate-issued", names, key=f"certificate:{row['id']}:issued", data=data)
    await activity.record(
        tx, "certificate_issued", cohort_id=ids["cohort_id"], enrollment_id=enrollment_id, user_id=ids["user_id"]
    )
    return credential_id


async def reissue(tx: Tx, enrollment_id: UUID, *, reason: str, actor: str) -> str:
    """Issue the certificate again with the name that the student has now, and return the new credential id.

    The older one is not valid any more: its page, its badge and the status list say so.
    """
    old = await rows.lock_valid(tx, enrollment_id)
    if old is None or is_erased(old):
        raise NotFound(f"enrolment {enrollment_id} has no valid certificate")
    names = await rows.names(tx, enrollment_id)
    if names["name"] == old["snapshot"].get("studentName"):
        raise LearningError(f"the certificate has the name {names['name']!r} already: correct the name first")
    certificate_id, credential_id = uuid4(), new_credential_id()
    url = links.certificate(credential_id)
    await rows.replace(tx, old["id"], certificate_id)
    await rows.reissue(tx, certificate_id, old["id"], credential_id, url, names["name"])
    await tx.enqueue(render_certificate.unique(f"certificate:{certificate_id}"), certificate_id=certificate_id)
    data = {"name": names["name"], "cohortName": names["cohort_name"], "certificateUrl": url}
    data["credentialId"] = credential_id
    await mail(tx, "certificate-reissued", names, key=f"certificate:{certificate_id}:reissued", data=data)
    changes = {"credential_id": {"from": old["credential_id"], "to": credential_id}}
    ids: dict[str, Any] = {"entity_type": "Enrollment", "entity_id": enrollment_id, "changes": changes}
    await tx.audit("certificate_reissued", **ids, reason=reason, actor=actor)
    return credential_id


async def correct_name(tx: Tx, user_id: UUID, name: str, *, reason: str, actor: str) -> int:
    """Correct the name of a student for an operator, and return how many certificates were issued again."""
    student = await users.update_profile(tx, user_id, name=name)
    enrollments = await rows.with_other_name(tx, user_id, student["name"])
    for enrollment_id in enrollments:
        await reissue(tx, enrollment_id, reason=reason, actor=actor)
    return len(enrollments)


async def revoke_certificate(tx: Tx, enrollment_id: UUID, *, reason: str) -> bool:
    """Revoke the certificate of an enrolment. Returns False if there is none or it was revoked before."""
    return await rows.revoke(tx, enrollment_id, reason) is not None


@app.job(name="learning.certify_cohort", timeout=300)
async def certify_cohort(tx: Tx, *, cohort_id: UUID, after: UUID | None = None) -> dict[str, int]:
    """Check the next students of a completed cohort, and enqueue the batch after them."""
    ids = await rows.candidates(tx, cohort_id, after, BATCH)
    if len(ids) == BATCH:
        await tx.enqueue(certify_cohort, cohort_id=cohort_id, after=ids[-1])
    return {"issued": sum([await check(tx, enrollment_id) is not None for enrollment_id in ids])}


@app.job(name="learning.render_certificate", outside=True, timeout=60)
async def render_certificate(job: Job, *, certificate_id: UUID) -> dict[str, int]:
    """Write the PDF. The certificate is valid without it, and a repeat writes the same document."""
    async with job.transaction() as tx:
        row = await rows.certificate(tx, certificate_id)
    if row is None:
        raise Permanent(f"there is no certificate {certificate_id}")
    if is_erased(row):
        return {"bytes": 0}
    # In a thread: drawing takes a quarter of a second, in which other work goes on.
    values = (row["snapshot"], row["credential_id"], row["url"], row["issued_at"])
    document = await asyncio.to_thread(certificate_pdf.render, *values)
    async with job.transaction() as tx:
        kept = await rows.keep_document(tx, certificate_id, document)
    return {"bytes": len(document) if kept else 0}
