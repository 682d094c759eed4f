"""Split an SQL script into statements that must not share an implicit transaction."""

from __future__ import annotations

import re

TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]*)
    | (?P<open> /\*)
    | (?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*')
    | (?P<text> '(?:[^']|'')*')
    | (?P<name> "(?:[^"]|"")*")
    | (?P<dollar> (?<![\w$])\$(?P<tag>[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$)
    | (?P<end> ;)
    """,
    re.VERBOSE | re.DOTALL,
)
COMMENT_EDGE = re.compile(r"/\*|\*/")


def split(script: str) -> list[str]:
    """Return the statements of a script, without the semicolons between them and without empty ones.

    Quoted text, dollar-quoted bodies and (nested) comments may contain semicolons. Bodies of the form `begin atomic ...
    end` may not.
    """
    statements: list[str] = []
    start = position = 0
    has_code = False
    while (token := TOKEN.search(script, position)) is not None:
        has_code = has_code or bool(script[position : token.start()].strip())
        position = token.end()
        match token.lastgroup if token.lastgroup != "tag" else "dollar":
            case "comment":
                continue
            case "open":
                position = _end_of_comment(script, position)
            case "dollar":
                has_code = True
                closing = script.find(token[0], position)
                position = len(script) if closing < 0 else closing + len(token[0])
            case "end":
                if has_code:
                    statements.append(script[start : token.start()].strip())
                start, has_code = position, False
            case _:
                has_code = True
    if has_code or script[position:].strip():
        statements.append(script[start:].strip())
    return statements


def _end_of_comment(script: str, position: int) -> int:
    depth = 1
    while depth and (edge := COMMENT_EDGE.search(script, position)) is not None:
        depth += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return position if depth == 0 else len(script)
