"""Ollama's Python client."""

import ollama
from checks import assert_broken, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, url

hello = [{"role": "user", "content": "hello there"}]


def client_of(api_key):
    return ollama.Client(host=url, headers={"Authorization": f"Bearer {api_key}"})


client = client_of(key)


def whole_answer():
    for name in (model, reasoner):
        answer = client.chat(model=name, messages=hello)
        assert (answer.message.content, answer.done) == (greeting, True), answer


def streamed_answer():
    for name in (model, reasoner):
        assert "".join(chunk.message.content or "" for chunk in client.chat(model=name, messages=hello, stream=True)) == greeting


def tool_loop():
    for name in (model, reasoner):
        messages = [{"role": "user", "content": question}]
        message = client.chat(model=name, messages=messages, tools=[get_weather]).message
        messages.append(message)
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_name": call.function.name, "content": get_weather(**call.function.arguments)})
        assert_used_tool(client.chat(model=name, messages=messages, tools=[get_weather]).message.content)


def wrong_key():
    try:
        client_of("nothing").chat(model=model, messages=hello)
    except ollama.ResponseError as error:
        assert error.status_code == 401, error
        return
    raise AssertionError("no error")


def broken_stream():
    assert_broken(client.chat(model=broken, messages=hello, stream=True), lambda chunk: chunk.message.content)


def keep_alives():
    assert "".join(chunk.message.content or "" for chunk in client.chat(model=paused, messages=hello, stream=True)) == paused_text


run(whole_answer, streamed_answer, tool_loop, wrong_key, broken_stream, keep_alives)
