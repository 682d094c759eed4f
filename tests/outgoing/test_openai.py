"""Chat with a language model: whole answers, streams, schemas, and every way in which an answer can be missing."""

import asyncio
from datetime import date

import pytest
from openai import AsyncOpenAI, RateLimitError
from pydantic import BaseModel, ConfigDict

from onceward.integrations.openai import OpenAI
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
from onceward.services.outcome import Refused, Throttled, Unknown, Unreachable

SECRET = "sk-s3cret"


class Outline(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str
    lessons: list[str]


@pytest.fixture
def chat(client, sims) -> OpenAI:
    return OpenAI(client, SECRET, "gpt-simulated", sims.openai.base_url, timeout_s=10, idle_timeout_s=5)


async def test_a_whole_answer_has_text_tokens_and_the_ids_of_both_sides(chat, sims) -> None:
    sims.openai.answer_with("Forty-two.")
    answer = await chat.complete([ChatMessage("system", "Be brief."), ChatMessage("user", "Why?")], key="job:7:outline")
    assert answer.text == "Forty-two."
    assert answer.usage == Usage(prompt_tokens=4, completion_tokens=3)
    assert answer.request_id == "req_simulated_1"
    call = sims.openai.calls[0]
    assert (call.key, call.state, [message["role"] for message in call.messages]) == (
        "job:7:outline",
        "complete",
        ["system", "user"],
    )


async def test_a_stream_gives_pieces_and_then_the_same_answer(chat, sims) -> None:
    sims.openai.answer_with("A lesson about äöü and €.")
    pieces = []
    async with chat.stream("Write") as stream:
        async for piece in stream:
            pieces.append(piece)
    assert len(pieces) > 2
    assert "".join(pieces) == stream.completion.text == "A lesson about äöü and €."
    assert stream.completion.usage == Usage(2, 7)
    assert stream.completion.finish_reason == "stop"


async def test_an_answer_by_schema_validates(chat, sims) -> None:
    schema = JsonSchema("outline", Outline.model_json_schema())
    whole = await chat.complete("Plan", schema=schema)
    async with chat.stream("Plan", schema=schema) as stream:
        streamed = await stream.read()
    assert Outline.model_validate(whole.json()) == Outline.model_validate_json(streamed.text)
    assert sims.openai.calls[0].schema == Outline.model_json_schema()


@pytest.mark.parametrize("is_stream", [False, True])
async def test_every_failure_has_its_error_and_outcome(chat, sims, is_stream) -> None:
    async def ask() -> None:
        if is_stream:
            async with chat.stream("Write") as stream:
                await stream.read()
        else:
            await chat.complete("Write")

    sims.openai.rate_limit(retry_after_s=3)
    with pytest.raises(ChatRateLimited) as limited:
        await ask()
    assert limited.value.outcome == Throttled(3.0)

    sims.openai.use_up_quota()
    with pytest.raises(ChatRejected) as empty:
        await ask()
    assert isinstance(empty.value.outcome, Refused)
    assert empty.value.outcome.account
    assert not empty.value.outcome.permanent

    sims.openai.fail_next(status=503)
    with pytest.raises(ChatUnavailable) as down:
        await ask()
    assert down.value.outcome == Refused("HTTP 503: server_error", permanent=False)

    sims.openai.refuse("No.")
    with pytest.raises(ModelRefused) as refused:
        await ask()
    assert refused.value.refusal == "No."
    assert refused.value.usage is not None

    sims.openai.cut(after_characters=5)
    with pytest.raises(ChatCut) as cut:
        await ask()
    assert cut.value.text == "A sim"

    sims.openai.break_stream(after_characters=5)
    with pytest.raises(ChatBroken) as broken:
        await ask()
    assert isinstance(broken.value.outcome, Unknown)
    assert broken.value.text == ("A sim" if is_stream else "")

    sims.openai.unknown_models.add("gpt-simulated")
    with pytest.raises(ChatRejected) as unknown:
        await ask()
    assert unknown.value.code == "model_not_found"
    assert isinstance(unknown.value.outcome, Refused)
    assert unknown.value.outcome.permanent
    assert [call.state for call in sims.openai.calls] == ["failed", "refused", "cut", "broken"]


async def test_nothing_listens(client, closed_url) -> None:
    chat = OpenAI(client, SECRET, "m", f"{closed_url}/v1")
    with pytest.raises(ChatUnavailable) as error:
        await chat.complete("Hello")
    assert isinstance(error.value.outcome, Unreachable)
    with pytest.raises(ChatUnavailable):
        async with chat.stream("Hello"):
            pass


async def test_a_silent_stream_is_given_up(client, sims) -> None:
    chat = OpenAI(client, SECRET, "m", sims.openai.base_url, idle_timeout_s=0.2)
    sims.openai.stall_stream(after_characters=5)
    with pytest.raises(ChatBroken, match="stopped arriving") as broken:
        async with chat.stream("Hello") as stream:
            await stream.read()
    assert broken.value.text == "A sim"


async def test_an_endless_stream_is_cut_and_the_service_sees_the_hang_up(client, sims) -> None:
    chat = OpenAI(client, SECRET, "m", sims.openai.base_url, max_answer_characters=500)
    sims.openai.stream_without_end()
    with pytest.raises(ChatCut, match="more than 500 characters") as cut:
        async with chat.stream("Hello") as stream:
            await stream.read()
    assert len(cut.value.text) < 600
    await until_cancelled(sims)


async def test_leaving_the_block_cancels_the_call(chat, sims) -> None:
    sims.openai.stream_without_end()
    async with chat.stream("Hello") as stream:
        async for _ in stream:
            break
    await until_cancelled(sims)
    with pytest.raises(RuntimeError, match="not complete"):
        _ = stream.completion


async def until_cancelled(sims) -> None:
    async with asyncio.timeout(10):
        while sims.openai.calls[-1].state != "cancelled":
            await asyncio.sleep(0.01)


async def test_no_error_shows_the_key_or_the_prompt(chat, sims) -> None:
    sims.openai.unknown_models.add("gpt-simulated")
    with pytest.raises(ChatRejected) as error:
        await chat.complete("a private prompt")
    assert SECRET not in repr(chat) + repr(error.value) + str(error.value)
    assert "private" not in repr(ChatMessage("user", "a private prompt")) + str(error.value)


async def test_the_official_library_and_our_client_send_the_same_and_read_the_same(chat, sims) -> None:
    official = AsyncOpenAI(api_key=SECRET, base_url=sims.openai.base_url, max_retries=0)
    schema = JsonSchema("outline", Outline.model_json_schema())
    try:
        theirs = await official.chat.completions.create(
            model="gpt-simulated",
            messages=[{"role": "user", "content": "Plan"}],
            response_format=schema.written(),  # pyright: ignore[reportArgumentType]
            max_completion_tokens=500,
        )
        ours = await chat.complete("Plan", schema=schema, max_tokens=500)
        assert theirs.choices[0].message.content == ours.text
        assert theirs.usage is not None
        assert ours.usage == Usage(theirs.usage.prompt_tokens, theirs.usage.completion_tokens)
        sent = [request.json for request in sims.openai.received]
        assert sent[0] == sent[1]

        text, tokens = "", 0
        stream = await official.chat.completions.create(
            model="gpt-simulated",
            messages=[{"role": "user", "content": "Write"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
            tokens = chunk.usage.total_tokens if chunk.usage else tokens
        async with chat.stream("Write") as our_stream:
            completion = await our_stream.read()
        assert (text, tokens) == (completion.text, completion.usage.total_tokens)  # pyright: ignore[reportOptionalMemberAccess]
        assert sims.openai.received[2].json == sims.openai.received[3].json
        assert sims.openai.received[2].path == sims.openai.received[3].path

        sims.openai.rate_limit()
        with pytest.raises(RateLimitError):
            await official.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    finally:
        await official.close()


async def test_the_usage_of_a_day_is_read_over_all_pages_with_the_admin_key(client, sims) -> None:
    sims.openai.usage_by_day["2026-11-17"] = {"large": (100, 20), "small": (7, 3)}
    chat = OpenAI(client, SECRET, "small", sims.openai.base_url, admin_key="sk-admin-1")
    assert await chat.usage_of(date(2026, 11, 17)) == {"large": Usage(100, 20), "small": Usage(7, 3)}
    assert await chat.usage_of(date(2026, 11, 16)) == {}
    assert await OpenAI(client, SECRET, "small", sims.openai.base_url).usage_of(date(2026, 11, 17)) is None
    with pytest.raises(ChatRejected):
        await OpenAI(client, SECRET, "small", sims.openai.base_url, admin_key="sk-1").usage_of(date(2026, 11, 17))
