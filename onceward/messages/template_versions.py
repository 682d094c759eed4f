"""Versions of templates: who brought which, and which one a message was queued with."""

from __future__ import annotations

from uuid import UUID

from onceward.db import Database
from onceward.messages.errors import UnknownTemplate
from onceward.messages.kind import Message
from onceward.messages.lines import own_secrets
from onceward.messages.policies import POLICIES
from onceward.messages.recipient import CHANNELS
from onceward.messages.templates import Template, Templates, from_content
from onceward.statements import read_statement

NO_ORGANIZATION = UUID(int=0)
RECORD = read_statement("messages", "record_template_versions")


async def record_versions(db: Database, templates: Templates, release: str | None) -> None:
    """Store the versions that this process starts with, and the release that it belongs to (`ONCEWARD_RELEASE`)."""
    known = list(templates)
    await db.execute(
        RECORD,
        [each.name for each in known],
        [each.version for each in known],
        [each.content for each in known],
        release,
        [POLICIES[each.policy].max_attempts for each in known],
        [_own(each) for each in known],
    )


def _own(template: Template) -> dict[str, list[str]]:
    """Return by channel the secrets that give an organization its own account, as `queueing.queue` uses them."""
    shared = template.installation_account
    return {channel: [] if channel in shared else own_secrets(channel) for channel in CHANNELS}


class TemplateVersions:
    """The versions that this process has used."""

    def __init__(self, db: Database, templates: Templates) -> None:
        self._db = db
        self._templates = templates
        self._versions: dict[tuple[UUID | None, str, str], Template] = {}

    async def of(self, message: Message) -> Template:
        """Return the template version of a message, from memory or from the database."""
        # A version from the files of this process is the same for all; other versions belong to one organization.
        from_files = (None, message.template, message.version)
        from_database = (message.organization_id or NO_ORGANIZATION, message.template, message.version)
        for key in (from_files, from_database):
            if key in self._versions:
                return self._versions[key]
        try:
            current = self._templates.get(message.template)
        except UnknownTemplate:
            current = None
        if current is not None and current.version == message.version:
            self._versions[from_files] = current
            return current
        content = await self._db.fetchval(
            "select content from onceward.templates where name = $2 and version = $3"
            " and coalesce(organization_id, '00000000-0000-0000-0000-000000000000') = $1",
            *from_database,
        )
        if content is None:
            raise UnknownTemplate(f"template {message.template!r} has no version {message.version} in the database")
        self._versions[from_database] = from_content(message.template, content)
        return self._versions[from_database]
