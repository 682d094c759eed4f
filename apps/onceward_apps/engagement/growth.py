"""What deletes the rows of each table of engagement and when, or why they are kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "engagement.user_profiles": "kept: people, until they are erased",
    "engagement.user_engagement_states": "kept: one row for each user; deleted with the user",
    "engagement.state_counts": "deleted by `engagement-counts` every 10 minutes, which adds them up to a few rows",
    "engagement.transactions": "kept: the activity of users, which decides about their states; deleted with the user",
    "engagement.transitions": "kept for ever: evidence of every change of a state; deleted when the user is erased",
    "engagement.returns": "kept: two rows for each organization and day",
    "engagement.pauses": "kept: at most two rows for each organization",
}
