"""OpenAI's Python client: chat completions and responses."""

import json
import time

import openai
from checks import (
    Answer,
    assert_broken,
    assert_used_tool,
    broken,
    get_weather,
    greeting,
    key,
    model,
    paused,
    paused_text,
    question,
    reasoner,
    run,
    schema,
    slow,
    url,
)

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


def tokens_of(response):
    return response.usage.input_tokens


def previous_response_id():
    """https://platform.openai.com/docs/guides/conversation-state"""
    tools = [{"type": "function", **function}]
    for name in (model, reasoner):
        first = client.responses.create(model=name, input=question, tools=tools)
        (call,) = (item for item in first.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": get_weather(**json.loads(call.arguments))}
        second = client.responses.create(model=name, input=[output], previous_response_id=first.id, tools=tools)
        assert_used_tool(second.output_text)
        with client.responses.stream(model=name, input="hello there", previous_response_id=second.id, tools=tools) as stream:
            third = stream.get_final_response()
        assert third.output_text == greeting and tokens_of(third) > tokens_of(second) > tokens_of(first), third
        assert client.responses.retrieve(third.id).output_text == greeting
        assert [item.content[0].text for item in client.responses.input_items.list(third.id)] == ["hello there"]
        client.responses.delete(third.id)
        refused(openai.NotFoundError, lambda: client.responses.retrieve(third.id))
        refused(openai.BadRequestError, lambda: client.responses.create(model=name, input="hello there", previous_response_id=third.id))


def refused(kind, call):
    try:
        call()
    except kind:
        return
    raise AssertionError("no error")


def conversations():
    """https://platform.openai.com/docs/guides/conversation-state"""
    for name in (model, reasoner):
        conversation = client.conversations.create(items=[{"type": "message", "role": "user", "content": "My name is Ada."}], metadata={"topic": "names"})
        first = client.responses.create(model=name, input="hello there", conversation=conversation.id)
        second = client.responses.create(model=name, input="hello there", conversation={"id": conversation.id})
        assert second.output_text == greeting and tokens_of(second) > tokens_of(first), second
        client.conversations.items.create(conversation.id, items=[{"type": "message", "role": "user", "content": "Goodbye."}])
        texts = [item.content[0].text for item in client.conversations.items.list(conversation.id, order="asc", limit=2) if item.type == "message"]
        assert texts == ["My name is Ada.", "hello there", first.output_text, "hello there", greeting, "Goodbye."], texts
        assert client.conversations.update(conversation.id, metadata={"topic": "greetings"}).metadata == {"topic": "greetings"}
        client.conversations.delete(conversation.id)
        refused(openai.NotFoundError, lambda: client.conversations.retrieve(conversation.id))


def background_polled():
    """https://platform.openai.com/docs/guides/background"""
    for name in (model, reasoner):
        response = client.responses.create(model=name, input="hello there", background=True)
        assert response.status == "queued", response
        while response.status in {"queued", "in_progress"}:
            time.sleep(0.05)
            response = client.responses.retrieve(response.id)
        assert (response.status, response.output_text) == ("completed", greeting), response


def background_streamed_and_resumed():
    events = []
    for event in client.responses.create(model=slow, input="hello there", background=True, stream=True):
        events.append(event)
        if len(events) == 8:
            break
    id = events[0].response.id
    events += client.responses.retrieve(id, stream=True, starting_after=events[-1].sequence_number)
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    final = events[-1].response
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert events[-1].type == "response.completed" and text == final.output_text, final
    with client.responses.stream(response_id=id, starting_after=4) as stream:
        assert stream.get_final_response().output_text == final.output_text


def background_cancelled():
    response = client.responses.create(model=slow, input="hello there", background=True)
    assert client.responses.cancel(response.id).status == "cancelled"
    assert client.responses.cancel(response.id).status == "cancelled"
    assert client.responses.retrieve(response.id).status == "cancelled"


def compaction():
    """https://platform.openai.com/docs/guides/compaction"""
    for name in (model, reasoner):
        history = [{"role": "user", "content": "My name is Ada."}]
        first = client.responses.create(model=name, input=history)
        for more in ({"input": [*history, *first.output]}, {"previous_response_id": first.id}):
            compacted = client.responses.compact(model=name, **more)
            assert [item.type for item in compacted.output] == ["message", "compaction"], compacted
            next = client.responses.create(model=name, input=[*compacted.output, *hello])
            assert next.output_text and tokens_of(next) > tokens_of(first), next


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


def chat_text(chunk):
    return "".join(choice.delta.content or "" for choice in chunk.choices)


def response_text(event):
    if event.type == "response.failed":
        raise AssertionError(event.response.error.message)
    return event.delta if event.type == "response.output_text.delta" else ""


def batches():
    body = {"model": model, "messages": hello}
    lines = [json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}) for name in ("a", "b")]
    file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"run": "1"})
    assert batch.id in [listed.id for listed in client.batches.list(limit=100).data]
    while batch.status not in ("completed", "failed", "expired", "cancelled"):
        time.sleep(0.2)
        batch = client.batches.retrieve(batch.id)
    assert (batch.status, batch.request_counts.completed, batch.metadata) == ("completed", 2, {"run": "1"}), batch
    results = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
    assert [result["custom_id"] for result in results] == ["a", "b"], results
    assert all(result["response"]["body"]["choices"][0]["message"]["content"] == greeting for result in results), results


def files():
    text = b'{"custom_id": "a"}\n'
    file = client.files.create(file=("a.jsonl", text), purpose="batch")
    assert client.files.content(file.id).read() == text
    assert file.id in [listed.id for listed in client.files.list(limit=100).data]
    assert client.files.delete(file.id).deleted
    upload = client.uploads.upload_file_chunked(file=text, filename="b.jsonl", bytes=len(text), mime_type="application/jsonl", purpose="user_data", part_size=10)
    assert client.files.content(upload.file.id).read() == text
    content = [{"type": "input_file", "file_id": upload.file.id}, {"type": "input_text", "text": "hello there"}]
    assert "hello there" in client.responses.create(model=model, input=[{"role": "user", "content": content}]).output_text
    client.files.delete(upload.file.id)


def broken_stream():
    assert_broken(client.chat.completions.create(model=broken, messages=hello, stream=True), chat_text)
    assert_broken(client.responses.create(model=broken, input="hello there", stream=True), response_text)


def keep_alives():
    assert "".join(map(chat_text, client.chat.completions.create(model=paused, messages=hello, stream=True))) == paused_text
    assert "".join(map(response_text, client.responses.create(model=paused, input="hello there", stream=True))) == paused_text


run(
    whole_answer,
    streamed_answer,
    asynchronous_client,
    tool_loop_over_chat,
    documented_loop_over_responses,
    documented_loop_streamed,
    previous_response_id,
    conversations,
    background_polled,
    background_streamed_and_resumed,
    background_cancelled,
    compaction,
    structured_output,
    files,
    batches,
    wrong_key,
    broken_stream,
    keep_alives,
)
