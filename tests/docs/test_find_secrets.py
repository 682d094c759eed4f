"""The search for credentials finds real ones and leaves examples alone."""

from __future__ import annotations

import secrets
import string

from tools.find_secrets import find, main


def test_real_credentials_are_found_with_their_line_and_examples_are_not() -> None:
    letters = string.ascii_letters + string.digits
    random = "".join(secrets.choice(letters) for _ in range(200)) + string.ascii_letters[:20]
    real = [f"sk_{'live'}_{random[:30]}", f"gh{'p'}_{random[:36]}", f"ow_{'a2b3c4d5e6'}_{random[:43]}"]
    assert [line for line, _ in find("\n".join(["first", *real]))] == [2, 3, 4]
    assert (
        find("sk_live_xxxxxxxxxxxxxxxxxxxxxxxx ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa AKIAIOSFODNN7EXAMPLE") == []
    )


def test_this_repository_has_none() -> None:
    assert main() == 0
