"""What a new user meets in the first hour on the command line."""

from __future__ import annotations

from onceward.cli.rendering import boxed


def test_a_box_keeps_a_long_link_on_one_line(capsys) -> None:
    link = "http://127.0.0.1:8400/login?token=" + "x" * 200
    boxed("Log in:", link)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["Log in:", link]
    assert lines[0] == lines[3] == "-" * 100
