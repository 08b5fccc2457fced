"""Anthropic's Python client."""

import time

import anthropic
from anthropic import beta_tool
from checks import Answer, assert_broken, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, schema, url

client = anthropic.Anthropic(api_key=key, base_url=url, max_retries=0)
hello = [{"role": "user", "content": "hello there"}]
tools = [{"name": "get_weather", "description": "Says the weather of a city.", "input_schema": schema}]


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def whole_answer():
    for name in (model, reasoner):
        message = client.messages.create(model=name, max_tokens=2000, messages=hello, system="Be brief.")
        assert (text_of(message), message.stop_reason, message.model) == (greeting, "end_turn", name), message
        assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0 and message._request_id.startswith("req_")


def streamed_answer():
    for name in (model, reasoner):
        events = client.messages.create(model=name, max_tokens=2000, messages=hello, stream=True)
        deltas = [event.delta for event in events if event.type == "content_block_delta"]
        assert "".join(delta.text for delta in deltas if delta.type == "text_delta") == greeting, deltas
        with client.messages.stream(model=name, max_tokens=2000, messages=hello) as stream:
            assert "".join(stream.text_stream) == greeting
            assert stream.get_final_message().stop_reason == "end_turn"


async def asynchronous_client():
    async with anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0) as client:
        assert text_of(await client.messages.create(model=model, max_tokens=2000, messages=hello)) == greeting
        async with client.messages.stream(model=model, max_tokens=2000, messages=hello) as stream:
            assert "".join([text async for text in stream.text_stream]) == greeting


def loop(ask):
    """Two turns; the whole content of an answer, thinking and signatures included, is sent back."""
    for name in (model, reasoner):
        messages = [{"role": "user", "content": question}]
        message = ask(name, messages)
        assert message.stop_reason == "tool_use", message
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": get_weather(**block.input)} for block in message.content if block.type == "tool_use"
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        message = ask(name, messages)
        assert_used_tool(text_of(message))
        messages += [{"role": "assistant", "content": message.content}, *hello]
        assert text_of(ask(name, messages)) == greeting


def requested(name, messages):
    thinking = {"type": "adaptive"} if name == reasoner else {"type": "disabled"}
    return {"model": name, "max_tokens": 2000, "messages": messages, "tools": tools, "thinking": thinking}


def tool_loop_with_thinking():
    loop(lambda name, messages: client.messages.create(**requested(name, messages)))


def tool_loop_streamed():
    def ask(name, messages):
        with client.messages.stream(**requested(name, messages)) as stream:
            return stream.get_final_message()

    loop(ask)


def tool_runner():
    for name in (model, reasoner):
        runner = client.beta.messages.tool_runner(
            model=name, max_tokens=2000, messages=[{"role": "user", "content": question}], tools=[beta_tool(get_weather)]
        )
        assert_used_tool(text_of(runner.until_done()))


def structured_output():
    for name in (model, reasoner):
        message = client.messages.parse(model=name, max_tokens=2000, messages=hello, output_format=Answer)
        assert isinstance(message.parsed_output, Answer), message


def wrong_key():
    stranger = anthropic.Anthropic(api_key="nothing", base_url=url, max_retries=0)
    for stream in (False, True):
        try:
            stranger.messages.create(model=model, max_tokens=2000, messages=hello, stream=stream)
        except anthropic.AuthenticationError:
            continue
        raise AssertionError("no error")


def delta_text(event):
    return event.delta.text if event.type == "content_block_delta" and event.delta.type == "text_delta" else ""


def batches():
    requests = [{"custom_id": name, "params": {"model": model, "max_tokens": 2000, "messages": hello}} for name in ("a", "b")]
    batch = client.messages.batches.create(requests=requests)
    assert batch.id in [listed.id for listed in client.messages.batches.list(limit=100).data]
    while batch.processing_status != "ended":
        time.sleep(0.2)
        batch = client.messages.batches.retrieve(batch.id)
    assert batch.request_counts.succeeded == 2, batch
    results = list(client.messages.batches.results(batch.id))
    assert [(result.custom_id, text_of(result.result.message)) for result in results] == [("a", greeting), ("b", greeting)], results
    assert client.messages.batches.delete(batch.id).id == batch.id


def files():
    stored = getattr(client, "files", None) or client.beta.files
    file = stored.upload(file=("a.txt", b"a text", "text/plain"))
    assert stored.retrieve_metadata(file.id).filename == "a.txt"
    assert file.id in [listed.id for listed in stored.list(limit=100).data]
    assert stored.download(file.id).read() == b"a text"
    content = [{"type": "document", "source": {"type": "file", "file_id": file.id}}, {"type": "text", "text": "hello there"}]
    answer = client.messages.create(model=model, max_tokens=2000, messages=[{"role": "user", "content": content}])
    assert "hello there" in answer.content[0].text, answer
    assert stored.delete(file.id).id == file.id


def broken_stream():
    assert_broken(client.messages.create(model=broken, max_tokens=2000, messages=hello, stream=True), delta_text)


def keep_alives():
    with client.messages.stream(model=paused, max_tokens=2000, messages=hello) as stream:
        assert "".join(stream.text_stream) == paused_text


run(
    whole_answer,
    streamed_answer,
    asynchronous_client,
    tool_loop_with_thinking,
    tool_loop_streamed,
    tool_runner,
    structured_output,
    files,
    batches,
    wrong_key,
    broken_stream,
    keep_alives,
)
