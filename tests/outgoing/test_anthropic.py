"""Chat with Claude models: the same calls and errors as with OpenAI's API."""

import pytest

from onceward.integrations.anthropic import Anthropic
from onceward.services.chat import (
    ChatBroken,
    ChatCut,
    ChatMessage,
    ChatRateLimited,
    ChatRejected,
    ChatUnavailable,
    JsonSchema,
    ModelRefused,
    Usage,
)

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


@pytest.fixture
def chat(client, sims) -> Anthropic:
    return Anthropic(
        client, "sk-ant-s3cret", "claude-simulated", sims.anthropic.base_url, timeout_s=10, idle_timeout_s=5
    )


async def test_an_answer_arrives_in_pieces_and_the_system_message_is_a_field(chat, sims) -> None:
    sims.anthropic.answer_with("A lesson about äöü and €.")
    pieces = []
    async with chat.stream([ChatMessage("system", "Be brief."), ChatMessage("user", "Why?")], max_tokens=50) as stream:
        async for piece in stream:
            pieces.append(piece)
    assert len(pieces) > 2
    assert "".join(pieces) == stream.completion.text == "A lesson about äöü and €."
    assert (stream.completion.usage, stream.completion.request_id) == (Usage(4, 7), "req_simulated_1")
    call = sims.anthropic.calls[0]
    assert (call.system, call.max_tokens, [each["role"] for each in call.messages]) == ("Be brief.", 50, ["user"])
    assert "s3cret" not in repr(chat)


async def test_a_whole_answer_by_schema_is_json(chat, sims) -> None:
    whole = await chat.complete("Plan", schema=JsonSchema("plan", SCHEMA))
    assert set(whole.json()) == {"title"}
    assert sims.anthropic.calls[0].schema == SCHEMA


async def test_every_failure_has_its_error(chat, sims) -> None:
    simulator = sims.anthropic
    for arrange, error, facts in (
        (simulator.refuse, ModelRefused, {}),
        (simulator.cut, ChatCut, {}),
        (simulator.break_stream, ChatBroken, {}),
        (simulator.overload, ChatBroken, {"reason": "the service reports an error: overloaded_error"}),
        (simulator.use_up_credit, ChatRejected, {"account": True}),
        (lambda: simulator.fail_next(status=400), ChatRejected, {"account": False}),
        (lambda: simulator.fail_next(status=529), ChatUnavailable, {"was_sent": True}),
        (lambda: simulator.rate_limit(retry_after_s=3), ChatRateLimited, {"retry_after_s": 3}),
    ):
        arrange()
        with pytest.raises(error) as raised:
            await chat.complete("Write")
        assert {name: getattr(raised.value, name) for name in facts} == facts


async def test_the_check_names_a_wrong_key(client, sims) -> None:
    right = Anthropic(client, "sk-ant-1", "claude-simulated", sims.anthropic.base_url)
    wrong = Anthropic(client, "sk_invalid", "claude-simulated", sims.anthropic.base_url)
    assert type(await right.check()).__name__ == "Accepted"
    assert "authentication_error" in str(await wrong.check())
