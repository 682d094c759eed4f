"""Search the files of the repository for credentials that look real: `make audit`. Prints the places, never the values.

Examples in tests and documents repeat a few characters, or spell a word; a real credential does not.
"""

from __future__ import annotations

import re
import subprocess
import sys

CREDENTIALS = {
    "private key": r"-----BEGIN (?:RSA |EC |OPENSSH |)PRIVATE KEY-----\\?n?[A-Za-z0-9+/=\\n]{100,}",
    "AWS key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{36,}\b",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}\b",
    "Slack token": r"\bxox[abprs]-[0-9]{9,}-[A-Za-z0-9-]{20,}\b",
    "Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{20,}\b",
    "Google key": r"\bAIza[A-Za-z0-9_-]{35}\b",
    "OpenAI key": r"\bsk-(?:proj-)?[A-Za-z0-9_-]{40,}\b",
    "Twilio key": r"\bSK[0-9a-f]{32}\b",
    "SendGrid key": r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b",
    "Onceward key": r"\bow_[a-z2-7]{10}_[A-Za-z0-9_-]{43}\b",
}
FEWEST_CHARACTERS = 12
"""A credential with fewer different characters is an example."""


def find(text: str) -> list[tuple[int, str]]:
    """Return the line and the kind of each credential in a text."""
    found: list[tuple[int, str]] = []
    for kind, pattern in CREDENTIALS.items():
        for match in re.finditer(pattern, text):
            if len(set(match[0])) >= FEWEST_CHARACTERS and "example" not in match[0].lower():
                found.append((text.count("\n", 0, match.start()) + 1, kind))
    return sorted(found)


def main() -> int:
    names = subprocess.run(["git", "ls-files", "-z"], capture_output=True, check=True, text=True).stdout
    problems = 0
    for name in filter(None, names.split("\0")):
        try:
            with open(name, encoding="utf-8") as file:
                text = file.read()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue  # a picture, or a file that is deleted here
        for line, kind in find(text):
            problems += 1
            print(f"{name}:{line}: looks like a {kind}: revoke it, and remove it from the history")
    print(f"{problems} credentials found")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
