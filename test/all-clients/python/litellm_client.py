"""LiteLLM as a library, as `litellm_client.py openai`, `anthropic` or `gemini`: the provider in front of the model's name."""

import json
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
from checks import Answer, assert_broken, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, schema, url  # noqa: E402

provider = sys.argv[1]
base = {"openai": f"{url}/v1", "anthropic": url, "gemini": f"{url}/v1beta"}[provider]
hello = [{"role": "user", "content": "hello there"}]
tools = [{"type": "function", "function": {"name": "get_weather", "description": "Says the weather of a city.", "parameters": schema}}]
litellm.suppress_debug_info = True


def ask(name, messages, api_key=key, **more):
    return litellm.completion(model=f"{provider}/{name}", messages=messages, api_key=api_key, api_base=base, num_retries=0, max_tokens=2000, **more)


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def whole_answer():
    for name in (model, reasoner):
        response = ask(name, hello)
        assert (response.choices[0].message.content, response.choices[0].finish_reason) == (greeting, "stop"), response
        assert response.usage.total_tokens > 0


def streamed_answer():
    for name in (model, reasoner):
        assert text_of(ask(name, hello, stream=True)) == greeting


async def asynchronous_client():
    stream = await litellm.acompletion(model=f"{provider}/{model}", messages=hello, api_key=key, api_base=base, max_tokens=2000, stream=True)
    assert text_of([chunk async for chunk in stream]) == greeting


def loop(asked):
    """Two turns; the messages are sent back as LiteLLM made them, with thinking and signatures."""
    for name in (model, reasoner):
        messages = [{"role": "user", "content": question}]
        for turn in range(2):
            message = asked(name, messages)
            messages.append(message)
            for call in message.tool_calls or []:
                messages.append({"role": "tool", "tool_call_id": call.id, "content": get_weather(**json.loads(call.function.arguments))})
        assert_used_tool(message.content)
        assert asked(name, [*messages, *hello]).content == greeting


def tool_loop():
    loop(lambda name, messages: ask(name, messages, tools=tools).choices[0].message)


def streamed_tool_loop():
    loop(lambda name, messages: litellm.stream_chunk_builder(list(ask(name, messages, tools=tools, stream=True))).choices[0].message)


def structured_output():
    # LiteLLM sends Gemini a schema only for names that it knows, and asks newer Claude models for a tool's call in words, which the simulator does not read.
    for name in {"gemini": (reasoner,), "anthropic": (model,)}.get(provider, (model, reasoner)):
        response = ask(name, hello, response_format={"type": "json_schema", "json_schema": {"name": "Answer", "schema": Answer.model_json_schema()}})
        Answer.model_validate_json(response.choices[0].message.content)


def wrong_key():
    try:
        ask(model, hello, api_key="nothing")
    except litellm.AuthenticationError:
        return
    raise AssertionError("no error")


def broken_stream():
    assert_broken(ask(broken, hello, stream=True), lambda chunk: text_of([chunk]))


def keep_alives():
    assert text_of(ask(paused, hello, stream=True)) == paused_text


run(whole_answer, streamed_answer, asynchronous_client, tool_loop, streamed_tool_loop, structured_output, wrong_key, broken_stream, keep_alives)
