"""What finished surveys cause: the student's profile, the NPS of a cohort, alerts, and the check for a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import activity, certificates, link_tokens
from onceward_apps.learning.app import settings
from onceward_apps.learning.model import nps_category
from onceward_apps.learning.store import surveys as rows
from onceward_apps.learning.store.rows import Enrollment
from onceward_apps.learning.student_mails import mail

Kind = Literal["intake", "exit", "feedback"]
Result = dict[str, Any]

INTAKE_FIELDS = (
    "experienceLevel",
    "learningGoals",
    "challenges",
    "timezone",
    "preferredCommunication",
    "additionalNeeds",
)
EXIT_FIELDS = (
    "overallSatisfaction",
    "wouldRecommend",
    "mostValuable",
    "leastValuable",
    "instructorRating",
    "contentRating",
    "suggestions",
    "careerImpact",
)
TOKEN_FIELDS = ("enrollmentToken", "enrollmentId")
"""The hidden fields of a survey link that may carry the signed enrolment token."""
RESOURCES = {"BEGINNER": "beginner-prep", "ADVANCED": "advanced-challenges"}
MAX_ANSWER = 4000


async def finished(tx: Tx, *, survey_id: str, response_id: str, answers: Mapping[str, Any]) -> Result:
    """Apply a finished response once. An unknown survey is recorded and has no other effect."""
    kind, fields = await _survey(tx, survey_id)
    values = {fields.get(question, question): _short(answer) for question, answer in answers.items()}
    token = next((str(values[name]) for name in TOKEN_FIELDS if values.get(name)), None)
    kept = {name: value for name, value in values.items() if name not in TOKEN_FIELDS}
    if kind is None:
        await rows.record(
            tx, response_id=response_id, survey_id=survey_id, kind="unknown", enrollment_id=None, answers=kept
        )
        return {"status": "SURVEY_NOT_RECOGNIZED"}
    enrollment_id = None if token is None else await link_tokens.read_enrollment_token(tx, "survey", token)
    enrollment = None if enrollment_id is None else await rows.enrollment(tx, enrollment_id)
    rating = _whole(kept.get("rating")) if kind == "feedback" else None
    is_new = await rows.record(
        tx,
        response_id=response_id,
        survey_id=survey_id,
        kind=kind,
        enrollment_id=None if enrollment is None else enrollment["id"],
        answers=kept,
        rating=rating,
    )
    if enrollment is None:
        return {"status": "MISSING_ENROLLMENT_ID" if token is None else "ENROLLMENT_NOT_FOUND"}
    if not is_new:
        return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"]), "repeated": True}
    match kind:
        case "intake":
            return await _intake(tx, enrollment, response_id, kept)
        case "exit":
            return await _exit(tx, enrollment, response_id, kept)
        case "feedback":
            return await _feedback(tx, enrollment, kept, rating)


async def _survey(tx: Tx, survey_id: str) -> tuple[Kind | None, Mapping[str, str]]:
    """Return what a survey is, from the organization's own map or the settings, and its fields by question."""
    row = await rows.survey_map(tx, survey_id)
    if row is not None:
        return row["kind"], row["fields"]
    chosen = settings()
    by_id: dict[str, Kind] = {
        chosen.formbricks_intake_survey_id: "intake",
        chosen.formbricks_exit_survey_id: "exit",
        chosen.formbricks_feedback_survey_id: "feedback",
    }
    return (by_id.get(survey_id) if survey_id else None), {}


async def _intake(tx: Tx, enrollment: Enrollment, response_id: str, values: Mapping[str, Any]) -> Result:
    profile = {name: values[name] for name in INTAKE_FIELDS if name in values}
    await rows.save_intake(tx, enrollment["id"], response_id, profile)
    level = str(profile.get("experienceLevel") or "").upper()
    if level in RESOURCES:
        await rows.assign_resource(tx, enrollment["id"], RESOURCES[level])
    data = {
        "name": enrollment["user_name"],
        "cohortName": enrollment["cohort_name"],
        "experienceLevel": profile.get("experienceLevel"),
        "learningGoals": profile.get("learningGoals"),
    }
    key = f"enrollment:{enrollment['id']}:intake-complete"
    await mail(tx, "intake-complete-personalized", enrollment, key=key, data=data)
    news = {"type": "INTAKE_SURVEY_COMPLETED", "enrollmentId": str(enrollment["id"])}
    await tx.broadcast(f"user/{enrollment['user_id']}/profile", news)
    await _note(tx, "intake_survey_completed", enrollment)
    return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"]), "profileUpdated": True}


async def _exit(tx: Tx, enrollment: Enrollment, response_id: str, values: Mapping[str, Any]) -> Result:
    satisfaction = _whole(values.get("overallSatisfaction"))
    score = satisfaction if satisfaction is not None and 1 <= satisfaction <= 10 else None
    category = None if score is None else nps_category(score)
    feedback = {name: values[name] for name in EXIT_FIELDS if name in values} | {"overallSatisfaction": score}
    await rows.save_exit(tx, enrollment["id"], response_id, feedback, score, category)
    await rows.refresh_cohort_metrics(tx, enrollment["cohort_id"])
    await certificates.check(tx, enrollment["id"])
    standing = await certificates.standing(tx, enrollment["id"])
    data = {"cohortName": enrollment["cohort_name"], "certificateEligible": standing.is_on_course}
    key = f"enrollment:{enrollment['id']}:exit-survey"
    await mail(tx, "exit-survey-thank-you", enrollment, key=key, data=data)
    if category == "DETRACTOR":
        details = {
            "studentEmail": enrollment["email"],
            "cohortName": enrollment["cohort_name"],
            "npsScore": score,
            "feedback": feedback.get("suggestions"),
        }
        title = "Student exit survey shows low satisfaction"
        await tx.notify_admins("NPS_DETRACTOR", "high", title, details, ["slack", "dashboard"])
    await _note(tx, "exit_survey_completed", enrollment, nps_category=category)
    return {"status": "SUCCESS", "npsCategory": category}


async def _feedback(tx: Tx, enrollment: Enrollment, values: Mapping[str, Any], rating: int | None) -> Result:
    if rating is not None and rating <= settings().low_rating:
        details = {
            "enrollmentId": str(enrollment["id"]),
            "cohortName": enrollment["cohort_name"],
            "rating": rating,
            "feedback": values.get("comment") or values.get("suggestions"),
        }
        await tx.notify_admins("LOW_RATING", "high", "A student rated a session low", details, ["slack", "dashboard"])
    await _note(tx, "feedback_received", enrollment, rating=rating)
    return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"])}


async def _note(tx: Tx, kind: str, enrollment: Enrollment, **details: Any) -> None:
    ids = {"cohort_id": enrollment["cohort_id"], "enrollment_id": enrollment["id"], "user_id": enrollment["user_id"]}
    await activity.record(tx, kind, **ids, **details)


async def survey_url(tx: Tx, kind: Kind, enrollment_id: UUID) -> str | None:
    """Return the link to a survey, with the signed token of the enrolment, or None if there is no such survey."""
    chosen = settings()
    own = {row["kind"]: row["survey_id"] for row in await rows.survey_maps(tx)}
    survey_id = own.get(kind) or getattr(chosen, f"formbricks_{kind}_survey_id")
    if not survey_id:
        return None
    token = await link_tokens.enrollment_token(tx, "survey", enrollment_id)
    return f"{chosen.formbricks_url}/s/{survey_id}?enrollmentId={token}"


def _whole(value: Any) -> int | None:
    """Return the whole number that a rating question answered, or None. Formbricks sends numbers or their text."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() and abs(number) < 1000 else None


def _short(value: Any) -> Any:
    """Cut texts that are too long to be an answer."""
    return value[:MAX_ANSWER] if isinstance(value, str) else value
