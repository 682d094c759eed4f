"""The most used GitHub events.

Hand-kept, and compared with the schemas in octokit/webhooks `payload-schemas` (of 2026-06-22), not with a live account:
what is required here is required there. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from onceward.webhooks.models import Payload

VERSION: Final = "2022-11-28"
"""The version of GitHub's REST API whose payloads the models describe."""


class User(Payload):
    """A person, an organization or an app."""

    id: int
    login: str


class Repository(Payload):
    """A repository."""

    id: int
    full_name: str
    private: bool
    default_branch: str


class Author(Payload):
    """Who wrote a commit, as git knows it."""

    name: str
    email: str | None = None
    username: str | None = None


class Commit(Payload):
    """A pushed commit."""

    id: str
    message: str
    timestamp: str
    author: Author


class Push(Payload):
    """`push`."""

    ref: str
    before: str
    after: str
    repository: Repository
    sender: User
    commits: list[Commit]
    head_commit: Commit | None = None


class Issue(Payload):
    """An issue."""

    id: int
    number: int
    title: str
    state: str
    body: str | None = None


class IssueEvent(Payload):
    """`issues.opened` and the other actions of issues."""

    action: str
    issue: Issue
    repository: Repository
    sender: User


class Branch(Payload):
    """One side of a pull request."""

    ref: str
    sha: str


class PullRequest(Payload):
    """A pull request."""

    id: int
    number: int
    title: str
    head: Branch
    base: Branch
    merged: bool | None = None


class PullRequestEvent(Payload):
    """`pull_request.opened` and the other actions of pull requests."""

    action: str
    number: int
    pull_request: PullRequest
    repository: Repository
    sender: User


MODELS: Final[Mapping[str, type[Payload]]] = {
    "issues.closed": IssueEvent,
    "issues.opened": IssueEvent,
    "pull_request.closed": PullRequestEvent,
    "pull_request.opened": PullRequestEvent,
    "push": Push,
}
