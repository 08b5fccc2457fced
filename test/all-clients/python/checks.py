"""What the Python scripts share: what they ask, and how they report. The environment names the gateway, the key and the models."""

import asyncio
import inspect
import json
import os
import sys
import time
import traceback
from typing import Literal

from pydantic import BaseModel

url, key, model, slow, reasoner = (os.environ[f"SLUICE_{name}"] for name in ("URL", "KEY", "MODEL", "SLOW_MODEL", "REASONER"))
broken, paused = (os.environ[f"SLUICE_{name}_MODEL"] for name in ("BROKEN", "PAUSED"))

greeting = "You said: hello there\nThis is the simulator: the same words always get the same answer."
paused_text = "You said:"
failure = "The upstream of this model failed"
question = 'Use get_weather for "Paris".'
schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


class Answer(BaseModel):
    """The structured output that is asked for."""

    color: Literal["red", "green"]


def get_weather(city: str) -> str:
    """Says the weather of a city.

    Args:
        city: The city's name.
    """
    assert city == "Paris", city
    return "It rains."


def assert_used_tool(text):
    """Fails unless the answer repeats what get_weather returned."""
    assert "The tool get_weather returned: " in text and "It rains." in text, text


def _is_broken(texts, error):
    assert "".join(texts), f"no content before the error: {error!r}"
    words = []
    while error is not None:
        words.append(f"{error} {getattr(error, 'body', '')}")
        error = error.__cause__ or error.__context__
    assert any(failure in word for word in words), f"not the gateway's error: {words}"


def assert_broken(stream, text_of):
    """Fails unless a stream has content, and then raises an error with the gateway's words."""
    texts = []
    try:
        for chunk in stream:
            texts.append(text_of(chunk) or "")
    except Exception as error:
        return _is_broken(texts, error)
    raise AssertionError(f"a broken answer passes as a whole one: {texts}")


async def assert_broken_async(stream, text_of):
    """The same for an asynchronous stream."""
    texts = []
    try:
        async for chunk in stream:
            texts.append(text_of(chunk) or "")
    except Exception as error:
        return _is_broken(texts, error)
    raise AssertionError(f"a broken answer passes as a whole one: {texts}")


def run(*checks):
    """Runs every check, prints one line of JSON for each, and exits with 1 if one failed. A check is named after its function."""
    failed = False
    with asyncio.Runner() as runner:
        for check in checks:
            began = time.monotonic()
            error = None
            try:
                runner.run(check()) if inspect.iscoroutinefunction(check) else check()
            except Exception as caught:
                error = f"{type(caught).__name__}: {caught}"
                failed = True
                traceback.print_exc()
            name = check.__name__.replace("_", " ")
            print(json.dumps({"check": name, "error": error, "ms": round((time.monotonic() - began) * 1000)}), flush=True)
    sys.exit(1 if failed else 0)
