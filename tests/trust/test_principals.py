"""A caller is (organization, kind, subject): no code reads or compares a subject alone."""

from __future__ import annotations

import ast
from pathlib import Path
from uuid import UUID

import onceward
import onceward_apps
from onceward.trust import Principal
from onceward.trust.identity import STAFF, Kind

A, B = UUID(int=1), UUID(int=2)
OWNERS = {"onceward/trust/identity.py", "onceward/web/idempotency.py"}
"""The definition, and the hash of a whole principal."""


def test_a_user_id_is_only_given_for_the_organization_of_the_user() -> None:
    ada = Principal(A, "token", "ada")
    assert (ada.user_in(A), ada.user_in(B), ada.user_in(None)) == ("ada", None, None)
    assert Principal(None, "token", "ada").user_in(A) is None
    assert Principal(A, "session", "ada").user_in(A) is None


def test_no_two_principals_of_an_organization_share_a_name() -> None:
    kinds: tuple[Kind, ...] = ("key", "session", "token", "operator")
    subjects = ("ada", STAFF, "session:ada", "token:ada", f"token:{STAFF}", "key:session:ada", "", "a:b", "token:")
    principals = [Principal(A, kind, subject) for kind in kinds for subject in subjects]
    assert len({each.ref for each in principals}) == len(principals)
    assert STAFF not in {each.ref for each in principals}
    assert (Principal(A, "token", "ada").ref, Principal(A, "token", "a:b").ref) == ("ada", "a:b")


def test_no_code_reads_a_subject_without_its_organization_and_kind() -> None:
    problems: list[str] = []
    for package in (onceward, onceward_apps):
        root = Path(package.__path__[0])
        for path in root.rglob("*.py"):
            name = path.relative_to(root.parent).as_posix()
            text = path.read_text()
            if name in OWNERS or ".sub" not in text:
                continue
            tree = ast.parse(text)
            called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}  # re.sub(...)
            problems += [
                f"{name}:{node.lineno} reads .sub: compare a Principal, or use user_in(organization)"
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and node.attr == "sub" and id(node) not in called
            ]
    assert not problems, "\n".join(problems)
