"""What deletes the rows of each table of course generation and when, or why they are kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "coursegen.users": "kept: one row for each user with a tier, until the user is erased",
    "coursegen.courses": "deleted when the owner deletes the course; others stay",
    "coursegen.course_lessons": "deleted with their course, and when its generation starts again",
    "coursegen.drafts": "deleted when the lesson is stored or the generation ends",
    "coursegen.llm_calls": "kept for ever: costs, also of courses that were deleted",
    "coursegen.tier_costs": "kept: one row for each organization, month and tier",
}
