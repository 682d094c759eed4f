"""The most used GitLab events.

Hand-kept after the published descriptions of webhook events, and compared with the samples only, not with a live
account. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.webhooks.models import Payload

VERSION: Final = "unversioned"
"""GitLab does not version its payloads."""


class Project(Payload):
    """A project."""

    id: int
    name: str
    path_with_namespace: str


class User(Payload):
    """Who caused an event."""

    username: str
    name: str | None = None


class Push(Payload):
    """`Push Hook`, `Tag Push Hook`."""

    ref: str
    before: str
    after: str
    project: Project
    user_username: str | None = None
    total_commits_count: int = 0


class MergeRequest(Payload):
    """The attributes of a merge request."""

    iid: int
    title: str
    state: str
    action: str | None = None
    source_branch: str | None = None
    target_branch: str | None = None


class MergeRequestEvent(Payload):
    """`Merge Request Hook`."""

    user: User
    project: Project
    object_attributes: MergeRequest


MODELS: Final[Mapping[str, type[Payload]]] = {
    "Merge Request Hook": MergeRequestEvent,
    "Push Hook": Push,
    "Tag Push Hook": Push,
}
