"""OpenAI's Agents SDK for Python, at its default settings: the Responses API, and nothing said about storage."""

import os

from checks import Answer, assert_broken_async, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, url

os.environ.update(OPENAI_API_KEY=key, OPENAI_BASE_URL=f"{url}/v1", OPENAI_AGENTS_DISABLE_TRACING="1")

import agents  # noqa: E402
import openai  # noqa: E402


def agent_of(name, **more):
    return agents.Agent(name="Weather", instructions="Be brief.", model=name, tools=[agents.function_tool(get_weather)], **more)


async def tool_loop_and_second_turn():
    for name in (model, reasoner):
        first = await agents.Runner.run(agent_of(name), question)
        assert_used_tool(first.final_output)
        second = await agents.Runner.run(agent_of(name), [*first.to_input_list(), {"role": "user", "content": "hello there"}])
        assert second.final_output == greeting, second.final_output


async def streamed():
    for name in (model, reasoner):
        first = agents.Runner.run_streamed(agent_of(name), question)
        async for _ in first.stream_events():
            pass
        assert_used_tool(first.final_output)
        second = agents.Runner.run_streamed(agent_of(name), [*first.to_input_list(), {"role": "user", "content": "hello there"}])
        async for _ in second.stream_events():
            pass
        assert second.final_output == greeting, second.final_output


async def session():
    for name in (model, reasoner):
        memory = agents.SQLiteSession(name)
        assert_used_tool((await agents.Runner.run(agent_of(name), question, session=memory)).final_output)
        assert (await agents.Runner.run(agent_of(name), "hello there", session=memory)).final_output == greeting


async def two_turns(agent, turn_options, next_options=lambda first: {}):
    """A tool loop and a turn after it, whole and streamed."""
    for stream in (False, True):
        options = await turn_options()

        async def turn(text, more):
            if not stream:
                return await agents.Runner.run(agent, text, **{**options, **more})
            result = agents.Runner.run_streamed(agent, text, **{**options, **more})
            async for _ in result.stream_events():
                pass
            return result

        first = await turn(question, {})
        assert_used_tool(first.final_output)
        second = await turn("hello there", next_options(first))
        assert second.final_output == greeting, second.final_output
        assert second.raw_responses[-1].usage.input_tokens > first.raw_responses[-1].usage.input_tokens


async def auto_previous_response_id():
    async def options():
        return {"auto_previous_response_id": True}

    for name in (model, reasoner):
        await two_turns(agent_of(name), options, lambda first: {"previous_response_id": first.last_response_id})


async def conversation_id():
    async def options():
        return {"conversation_id": (await openai.AsyncOpenAI().conversations.create()).id}

    for name in (model, reasoner):
        await two_turns(agent_of(name), options)


async def OpenAIConversationsSession():  # noqa: N802
    async def options():
        return {"session": agents.OpenAIConversationsSession()}

    for name in (model, reasoner):
        await two_turns(agent_of(name), options)


async def OpenAIResponsesCompactionSession():  # noqa: N802
    from agents.memory import OpenAIResponsesCompactionSession

    for mode in ("auto", "input", "previous_response_id"):
        memory = OpenAIResponsesCompactionSession(
            mode, agents.SQLiteSession(mode), model=reasoner, compaction_mode=mode, should_trigger_compaction=lambda _: True
        )
        assert_used_tool((await agents.Runner.run(agent_of(reasoner), question, session=memory)).final_output)
        types = [item.get("type") for item in await memory.get_items()]
        assert types.count("compaction") == 1, (mode, types)
        # A dialect may join the summary and the question to one turn, which the simulator then repeats.
        assert (await agents.Runner.run(agent_of(reasoner), "hello there", session=memory)).final_output


async def handoff():
    weather = agents.Agent(name="Weather", model=reasoner, tools=[agents.function_tool(get_weather)])
    triage = agents.Agent(name="Triage", model=reasoner, handoffs=[weather])
    result = await agents.Runner.run(triage, "Use transfer_to_weather.")
    assert result.last_agent is weather, result


async def structured_output():
    for name in (model, reasoner):
        agent = agents.Agent(name="Colors", model=name, output_type=Answer)
        assert isinstance((await agents.Runner.run(agent, "hello there")).final_output, Answer)


async def wrong_key():
    stranger = agents.OpenAIProvider(api_key="nothing", base_url=f"{url}/v1")
    try:
        await agents.Runner.run(agent_of(model), "hello there", run_config=agents.RunConfig(model_provider=stranger))
    except openai.AuthenticationError:
        return
    raise AssertionError("no error")


def delta_text(event):
    return event.data.delta if event.type == "raw_response_event" and event.data.type == "response.output_text.delta" else ""


async def broken_stream():
    await assert_broken_async(agents.Runner.run_streamed(agent_of(broken), "hello there").stream_events(), delta_text)


async def keep_alives():
    result = agents.Runner.run_streamed(agent_of(paused), "hello there")
    assert "".join([delta_text(event) async for event in result.stream_events()]) == paused_text
    assert result.final_output == paused_text


run(
    tool_loop_and_second_turn,
    streamed,
    session,
    auto_previous_response_id,
    conversation_id,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    handoff,
    structured_output,
    wrong_key,
    broken_stream,
    keep_alives,
)
