"""What simulated chat models answer: the same words for the same request, or an example of its JSON schema."""

import hashlib
from typing import Any

import orjson

from onceward.testing.simulators.server import part, parts

Json = dict[str, Any]
_WORDS = ("A", "simulated", "model", "writes", "the", "same", "words", "for", "the", "same", "request.")


def count_tokens(text: str) -> int:
    """Count about four characters as one token."""
    return -(-len(text) // 4)


def write_answer(body: Json) -> str:
    """Write an answer that depends only on the request: an example of its JSON schema, or a few words."""
    schema = part(part(part(body, "response_format"), "json_schema"), "schema")
    if schema:
        return orjson.dumps(example(schema, schema)).decode()
    prompt = str(parts(body, "messages")[-1].get("content") or "")
    mark = hashlib.sha256(prompt.encode()).hexdigest()[:8]
    return " ".join((*_WORDS, f"({mark})"))


def example(schema: Json, root: Json) -> Any:
    """Return the smallest value that a JSON schema allows."""
    if "$ref" in schema:
        return example(part(part(root, "$defs"), str(schema["$ref"]).rsplit("/", 1)[-1]), root)
    for name in ("anyOf", "oneOf", "allOf"):
        if options := parts(schema, name):
            return example(options[0], root)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: example(one, root) for name, one in part(schema, "properties").items()}
        case "array":
            return [example(part(schema, "items"), root) for _ in range(max(int(schema.get("minItems", 1)), 1))]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            text = str(schema.get("title") or "Simulated text")
            return text.ljust(int(schema.get("minLength", 0)), ".")[: schema.get("maxLength")]
