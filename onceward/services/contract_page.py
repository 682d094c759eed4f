"""The contract page of an integration: the README of its folder with its samples, and its settings from the
declaration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from urllib.parse import unquote

from onceward.integration import Integration, integrations
from onceward.services.settings import settings_model

LINE = 120
_SAMPLE = re.compile(r"^\[[^\]]+\]\(samples/(?P<file>[^)]+)\.json\)$", re.MULTILINE)


def contract_page(name: str) -> str:
    """Return the page in Markdown. In the README, a line that only links to a sample becomes the sample itself."""
    declared, folder = integrations()[name], integrations().folder_of(name)
    readme = folder / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else _generated(declared)
    text = _SAMPLE.sub(lambda found: _shown(folder / "samples", found["file"]), text)
    return "\n".join((text.rstrip("\n"), *_settings(declared))) + "\n"


def _generated(declared: Integration) -> str:
    """Return the page of an integration without a README: that of a sender is made of its declaration."""
    from onceward.webhooks.page import sender_page
    from onceward.webhooks.registry import PROVIDERS
    from onceward.webhooks.sender import Sender

    provider = PROVIDERS.get(declared.name)
    return sender_page(provider) if isinstance(provider, Sender) else f"# {declared.title}\n"


def _shown(samples: Path, file: str) -> str:
    """Return one sample as code, with the types of the others."""
    content = (samples / f"{file}.json").read_text(encoding="utf-8").rstrip("\n")
    others = [unquote(each.stem) for each in sorted(samples.glob("*.json")) if each.stem != file]
    lines = [f"`{unquote(file)}`:", "```json", content, "```"]
    if others:
        lines.append(fill("Other samples: " + ", ".join(f"`{each}`" for each in others), LINE, break_on_hyphens=False))
    return "\n".join(lines)


def _settings(declared: Integration) -> Iterator[str]:
    """Return a table of the settings; a field of an account is also a secret that an organization may set."""
    model = settings_model(declared.name)
    if not model.model_fields:
        return
    yield from ("", "## Settings", "", "| setting | secret of an organization | meaning |", "|---|---|---|")
    fields = {each.name for each in declared.account}
    for name, field in model.model_fields.items():
        secret = f"`{declared.name}.{name}`" if name in fields else ""
        yield f"| `{model.environment_prefix}{name.upper()}` | {secret} | {field.description or ''} |"
