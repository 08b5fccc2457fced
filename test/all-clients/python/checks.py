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

greeting = "You said: hello there\nThis is the simulator: the same words always get the same answer."
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
