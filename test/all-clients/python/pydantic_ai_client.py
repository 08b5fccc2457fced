"""Pydantic AI's agents, as `pydantic_ai_client.py <class of the model>`: OpenAIChatModel, OpenAIResponsesModel, AnthropicModel or GoogleModel."""

import sys

from checks import Answer, assert_broken_async, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, url
from pydantic_ai import Agent, ModelHTTPError, NativeOutput

kind = sys.argv[1]


def model_of(name, api_key=key):
    if kind == "AnthropicModel":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=AsyncAnthropic(api_key=api_key, base_url=url, max_retries=0)))
    if kind == "GoogleModel":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(name, provider=GoogleProvider(api_key=api_key, base_url=url))
    from openai import AsyncOpenAI
    from pydantic_ai.models import openai
    from pydantic_ai.providers.openai import OpenAIProvider

    return getattr(openai, kind)(name, provider=OpenAIProvider(openai_client=AsyncOpenAI(api_key=api_key, base_url=f"{url}/v1", max_retries=0)))


def agent_of(name, **more):
    return Agent(model_of(name), **more)


async def whole_answer():
    for name in (model, reasoner):
        result = await agent_of(name, instructions="Be brief.").run("hello there")
        assert result.output == greeting, result
        assert result.all_messages()[-1].usage.output_tokens > 0


async def streamed_answer():
    for name in (model, reasoner):
        async with agent_of(name).run_stream("hello there") as result:
            assert "".join([text async for text in result.stream_text(delta=True)]) == greeting


async def tool_loop_and_second_turn():
    for name in (model, reasoner):
        agent = agent_of(name, tools=[get_weather])
        first = await agent.run(question)
        assert_used_tool(first.output)
        assert (await agent.run("hello there", message_history=first.all_messages())).output == greeting


async def streamed_tool_loop():
    for name in (model, reasoner):
        agent = agent_of(name, tools=[get_weather])
        async with agent.run_stream(question) as first:
            assert_used_tool(await first.get_output())
        async with agent.run_stream("hello there", message_history=first.all_messages()) as second:
            assert await second.get_output() == greeting


async def structured_output():
    # Pydantic AI sends Claude a format only for names of models that it knows to take one.
    wanted = Answer if kind == "AnthropicModel" else NativeOutput(Answer)
    for name in (model, reasoner):
        assert isinstance((await agent_of(name, output_type=wanted).run("hello there")).output, Answer)


async def wrong_key():
    try:
        await Agent(model_of(model, "nothing")).run("hello there")
    except ModelHTTPError as error:
        assert error.status_code == (400 if kind == "GoogleModel" else 401), error
        return
    raise AssertionError("no error")


async def texts_of(name):
    async with agent_of(name).run_stream("hello there") as result:
        async for text in result.stream_text(delta=True, debounce_by=None):
            yield text


async def broken_stream():
    await assert_broken_async(texts_of(broken), lambda text: text)


async def keep_alives():
    assert "".join([text async for text in texts_of(paused)]) == paused_text


run(whole_answer, streamed_answer, tool_loop_and_second_turn, streamed_tool_loop, structured_output, wrong_key, broken_stream, keep_alives)
