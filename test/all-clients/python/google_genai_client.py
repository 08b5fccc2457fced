"""Google's Python client."""

import io
import time

from checks import Answer, assert_broken, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, schema, url
from google import genai
from google.genai import errors, types

client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=url))
declarations = [types.Tool(function_declarations=[{"name": "get_weather", "description": "Says the weather of a city.", "parameters_json_schema": schema}])]
thoughts = types.ThinkingConfig(include_thoughts=True, thinking_budget=1024)


def whole_answer():
    for name in (model, reasoner):
        response = client.models.generate_content(model=name, contents="hello there", config={"system_instruction": "Be brief."})
        assert (response.text, response.candidates[0].finish_reason, response.model_version) == (greeting, types.FinishReason.STOP, name), response
        assert response.usage_metadata.total_token_count > 0


def streamed_answer():
    for name in (model, reasoner):
        chunks = list(client.models.generate_content_stream(model=name, contents="hello there"))
        assert "".join(chunk.text or "" for chunk in chunks) == greeting, chunks
        assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP


async def asynchronous_client():
    assert (await client.aio.models.generate_content(model=model, contents="hello there")).text == greeting
    stream = await client.aio.models.generate_content_stream(model=model, contents="hello there")
    assert "".join([chunk.text or "" async for chunk in stream]) == greeting


def chat():
    for name in (model, reasoner):
        session = client.chats.create(model=name)
        session.send_message("hello")
        assert session.send_message("hello there").text == greeting
        assert "".join(chunk.text or "" for chunk in session.send_message_stream("hello there")) == greeting


def automatic_tool_loop():
    for name in (model, reasoner):
        config = types.GenerateContentConfig(tools=[get_weather], thinking_config=thoughts if name == reasoner else None)
        assert_used_tool(client.models.generate_content(model=name, contents=question, config=config).text)
        session = client.chats.create(model=name, config=config)
        assert_used_tool(session.send_message(question).text)
        assert session.send_message("hello there").text == greeting


def streamed_tool_loop():
    """Two turns; all parts of an answer, thoughts and signatures included, are sent back."""
    for name in (model, reasoner):
        config = types.GenerateContentConfig(tools=declarations, thinking_config=thoughts if name == reasoner else None)
        contents = [types.Content(role="user", parts=[types.Part(text=question)])]
        for turn in range(2):
            parts = [
                part
                for chunk in client.models.generate_content_stream(model=name, contents=contents, config=config)
                for part in chunk.candidates[0].content.parts or []
            ]
            contents.append(types.Content(role="model", parts=parts))
            if turn == 0:
                calls = [part.function_call for part in parts if part.function_call]
                results = [types.FunctionResponse(id=call.id, name=call.name, response={"result": get_weather(**call.args)}) for call in calls]
                contents.append(types.Content(role="user", parts=[types.Part(function_response=result) for result in results]))
        assert_used_tool("".join(part.text or "" for part in parts if not part.thought))


def structured_output():
    for name in (model, reasoner):
        config = {"response_mime_type": "application/json", "response_schema": Answer}
        assert isinstance(client.models.generate_content(model=name, contents="hello there", config=config).parsed, Answer)


def wrong_key():
    stranger = genai.Client(api_key="nothing", http_options=types.HttpOptions(base_url=url))
    for ask in (stranger.models.generate_content, lambda **request: list(stranger.models.generate_content_stream(**request))):
        try:
            ask(model=model, contents="hello there")
        except errors.ClientError as error:
            assert error.code == 400, error
        else:
            raise AssertionError("no error")


def batches():
    contents = [{"role": "user", "parts": [{"text": "hello there"}]}]
    job = client.batches.create(model=model, src=[{"contents": contents}] * 2, config={"display_name": "two"})
    assert job.name in [listed.name for listed in client.batches.list()]
    while job.state.name in ("JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_QUEUED"):
        time.sleep(0.2)
        job = client.batches.get(name=job.name)
    assert (job.state.name, job.display_name) == ("JOB_STATE_SUCCEEDED", "two"), job
    assert [each.response.text for each in job.dest.inlined_responses] == [greeting] * 2, job
    client.batches.delete(name=job.name)


def files():
    file = client.files.upload(file=io.BytesIO(b"a text"), config={"mime_type": "text/plain", "display_name": "a"})
    assert client.files.get(name=file.name).display_name == "a"
    assert file.name in [listed.name for listed in client.files.list()]
    assert client.files.download(file=file.name) == b"a text"
    answer = client.models.generate_content(model=model, contents=["hello there", file])
    assert "hello there" in answer.text, answer
    client.files.delete(name=file.name)


def broken_stream():
    assert_broken(client.models.generate_content_stream(model=broken, contents="hello there"), lambda chunk: chunk.text)


def keep_alives():
    stream = client.models.generate_content_stream(model=paused, contents="hello there")
    assert "".join(chunk.text or "" for chunk in stream) == paused_text


run(
    whole_answer,
    streamed_answer,
    asynchronous_client,
    chat,
    automatic_tool_loop,
    streamed_tool_loop,
    structured_output,
    files,
    batches,
    wrong_key,
    broken_stream,
    keep_alives,
)
