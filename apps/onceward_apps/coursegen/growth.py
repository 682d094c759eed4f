"""What deletes the rows of each table of course generation and when, or why they are kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "coursegen.users": "kept: one row for each user with a tier, until the user is erased",
    "coursegen.courses": "deleted when the owner deletes the course; others stay",
    "coursegen.course_versions": "deleted with their course",
    "coursegen.course_lessons": "deleted with their course",
    "coursegen.model_pauses": "one row for each organization whose account is refused; deleted when it works again",
    "coursegen.drafts": "deleted when the lesson is stored or the generation ends",
    "coursegen.llm_calls": "kept for ever: costs, also of courses that were deleted",
    "coursegen.tier_costs": "kept: one row for each organization, month and tier",
    "coursegen.user_costs": "kept: one row for each user and month, until the user is erased",
    "coursegen.organization_settings": "kept: one row for each organization that has chosen settings",
}
