"""LangChain's chat models, as `langchain_client.py chat`, `responses` or `anthropic`: alone, and in the agent that LangChain makes of them."""

import sys

from checks import Answer, assert_broken, assert_used_tool, broken, get_weather, greeting, key, model, paused, paused_text, question, reasoner, run, url
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

kind = sys.argv[1]
weather = tool(get_weather)


def model_of(name, api_key=key, **more):
    if kind == "anthropic":
        from langchain_anthropic import ChatAnthropic

        thinking = {"type": "adaptive"} if name == reasoner else None
        return ChatAnthropic(model=name, api_key=api_key, base_url=url, max_retries=0, max_tokens=2000, thinking=thinking)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=name, api_key=api_key, base_url=f"{url}/v1", max_retries=0, use_responses_api=True if kind == "responses" else None, **more)


def whole_answer():
    for name in (model, reasoner):
        message = model_of(name).invoke("hello there")
        assert message.text == greeting, message
        assert message.usage_metadata["total_tokens"] > 0


def streamed_answer():
    for name in (model, reasoner):
        assert "".join(chunk.text for chunk in model_of(name).stream("hello there")) == greeting


def loop(ask, **more):
    """Two turns; the model's messages are sent back as LangChain made them."""
    for name in (model, reasoner):
        bound = model_of(name, **more).bind_tools([weather])
        messages = [HumanMessage(question)]
        messages.append(ask(bound, messages))
        messages += [weather.invoke(call) for call in messages[-1].tool_calls]
        messages.append(ask(bound, messages))
        assert_used_tool(messages[-1].text)
        messages.append(HumanMessage("hello there"))
        assert ask(bound, messages).text == greeting


def tool_loop():
    loop(lambda bound, messages: bound.invoke(messages))


def streamed_tool_loop():
    def ask(bound, messages):
        chunks = list(bound.stream(messages))
        return sum(chunks[1:], chunks[0])

    loop(ask)


def agent():
    for name in (model, reasoner):
        made = create_agent(model_of(name), tools=[weather])
        messages = made.invoke({"messages": [HumanMessage(question)]})["messages"]
        assert_used_tool(messages[-1].text)
        messages = made.invoke({"messages": [*messages, HumanMessage("hello there")]})["messages"]
        assert messages[-1].text == greeting, messages


def use_previous_response_id():
    loop(lambda bound, messages: bound.invoke(messages), use_previous_response_id=True)


def previous_response_id():
    for name in (model, reasoner):
        first = model_of(name).invoke("hello there")
        second = model_of(name).invoke("hello there", previous_response_id=first.response_metadata["id"])
        assert second.text == greeting, second
        assert second.usage_metadata["input_tokens"] > first.usage_metadata["input_tokens"]


def structured_output():
    for name in (model, reasoner):
        # LangChain's default for Anthropic is a forced call of a tool, which excludes thinking.
        asked = model_of(name).with_structured_output(Answer, method="json_schema")
        assert isinstance(asked.invoke("hello there"), Answer)


def wrong_key():
    try:
        model_of(model, api_key="nothing").invoke("hello there")
    except Exception as error:
        assert type(error).__name__.endswith("AuthenticationError"), repr(error)
        return
    raise AssertionError("no error")


def broken_stream():
    assert_broken(model_of(broken).stream("hello there"), lambda chunk: chunk.text)


def keep_alives():
    assert "".join(chunk.text for chunk in model_of(paused).stream("hello there")) == paused_text


stored = (use_previous_response_id, previous_response_id) if kind == "responses" else ()
run(whole_answer, streamed_answer, tool_loop, streamed_tool_loop, agent, *stored, structured_output, wrong_key, broken_stream, keep_alives)
