"""OpenAI's Python client: chat completions and responses."""

import json

import openai
from checks import Answer, assert_used_tool, get_weather, greeting, key, model, question, reasoner, run, schema, url

client = openai.OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)
hello = [{"role": "user", "content": "hello there"}]
function = {"name": "get_weather", "description": "Says the weather of a city.", "parameters": schema, "strict": True}


def whole_answer():
    for name in (model, reasoner):
        chat = client.chat.completions.create(model=name, messages=hello)
        assert (chat.choices[0].message.content, chat.choices[0].finish_reason, chat.model) == (greeting, "stop", name), chat
        assert chat.usage.total_tokens > 0 and chat._request_id.startswith("req_")
        response = client.responses.create(model=name, input="hello there")
        assert (response.output_text, response.status, response.model) == (greeting, "completed", name), response
        assert response.usage.total_tokens > 0


def streamed_answer():
    for name in (model, reasoner):
        chunks = list(client.chat.completions.create(model=name, messages=hello, stream=True, stream_options={"include_usage": True}))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == greeting, chunks
        assert chunks[-1].usage.total_tokens > 0
        with client.chat.completions.stream(model=name, messages=hello) as stream:
            assert stream.get_final_completion().choices[0].message.content == greeting
        events = list(client.responses.create(model=name, input="hello there", stream=True))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == greeting, events
        with client.responses.stream(model=name, input="hello there") as stream:
            assert stream.get_final_response().output_text == greeting


async def asynchronous_client():
    async with openai.AsyncOpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0) as client:
        assert (await client.responses.create(model=model, input="hello there")).output_text == greeting
        stream = await client.chat.completions.create(model=model, messages=hello, stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]) == greeting


def tool_loop_over_chat():
    for name in (model, reasoner):
        messages = [{"role": "user", "content": question}]
        tools = [{"type": "function", "function": function}]
        message = client.chat.completions.create(model=name, messages=messages, tools=tools).choices[0].message
        messages.append(message)
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": get_weather(**json.loads(call.function.arguments))})
        assert_used_tool(client.chat.completions.create(model=name, messages=messages, tools=tools).choices[0].message.content)


def documented_loop(ask):
    """The loop of OpenAI's guide to function calling, at default settings: https://platform.openai.com/docs/guides/function-calling"""
    for name in (model, reasoner):
        input = [{"role": "user", "content": question}]
        tools = [{"type": "function", **function}]
        response = ask(model=name, input=input, tools=tools)
        thoughts = [item for item in response.output if item.type == "reasoning"]
        assert all(thought.encrypted_content or thought.summary for thought in thoughts) and bool(thoughts) == (name == reasoner), response
        input += response.output
        for item in response.output:
            if item.type == "function_call":
                input.append({"type": "function_call_output", "call_id": item.call_id, "output": get_weather(**json.loads(item.arguments))})
        response = ask(model=name, input=input, tools=tools)
        assert_used_tool(response.output_text)
        input += response.output
        input.append(hello[0])
        assert ask(model=name, input=input, tools=tools).output_text == greeting


def documented_loop_over_responses():
    documented_loop(client.responses.create)


def documented_loop_streamed():
    def ask(**request):
        with client.responses.stream(**request) as stream:
            return stream.get_final_response()

    documented_loop(ask)


def structured_output():
    for name in (model, reasoner):
        parsed = client.chat.completions.parse(model=name, messages=hello, response_format=Answer)
        assert isinstance(parsed.choices[0].message.parsed, Answer)
        assert isinstance(client.responses.parse(model=name, input="hello there", text_format=Answer).output_parsed, Answer)


def wrong_key():
    stranger = openai.OpenAI(api_key="nothing", base_url=f"{url}/v1", max_retries=0)
    for ask in (
        lambda: stranger.chat.completions.create(model=model, messages=hello),
        lambda: stranger.responses.create(model=model, input="hello there", stream=True),
    ):
        try:
            ask()
        except openai.AuthenticationError as error:
            assert "Incorrect API key provided" in str(error), error
        else:
            raise AssertionError("no error")


run(
    whole_answer,
    streamed_answer,
    asynchronous_client,
    tool_loop_over_chat,
    documented_loop_over_responses,
    documented_loop_streamed,
    structured_output,
    wrong_key,
)
