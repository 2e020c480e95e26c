"""What the checks of every Python client share: the gateway, what to ask for, and how to tell the result.

Each check prints one line, which the Go test reads: "ok NAME", or "not ok NAME " and the reason as JSON.
"""

import json
import os
import traceback

URL = os.environ["MINDROUTER_URL"]
KEY = os.environ["MINDROUTER_KEY"]
WRONG_KEY = "mr2_wrong"
TASK = json.loads(os.environ["MINDROUTER_TASK"])
LIMITED_KEY = TASK["limited_key"]  # has no request left

CITY_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "name of the city"}},
    "required": ["city"],
}
PERSON_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mood": {"type": "string", "enum": ["good", "bad"]},
    },
    "required": ["name", "age", "mood"],
    "additionalProperties": False,
}
RESULT = "21, sunny"


def run(*checks):
    """Runs the checks in order, all of them."""
    for check in checks:
        try:
            check()
        except Exception:
            print("not ok", check.__name__, json.dumps(traceback.format_exc(limit=-6)), flush=True)
        else:
            print("ok", check.__name__, flush=True)


def equal(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


def person(value):
    """Checks that a value follows PERSON_SCHEMA."""
    assert set(value) == {"name", "age", "mood"}, value
    assert isinstance(value["name"], str) and isinstance(value["age"], int) and value["mood"] in ("good", "bad"), value


def weather(name, arguments):
    equal(name, TASK["tools"]["tool"])
    assert isinstance(arguments["city"], str) and arguments["city"], arguments


def answer_to_tool(text):
    assert TASK["tools"]["after"] in text, f"{text!r} does not use the result of the tool"


def vector(values):
    equal(len(values), TASK["embed"]["dims"])
    assert any(values) and all(isinstance(v, float) for v in values), values


def raises(kind, call, status=None):
    """Checks that a call fails with this class of the client's own errors."""
    try:
        call()
    except kind as error:
        if status is not None:
            equal(getattr(error, "status_code", None), status)
        return error
    raise AssertionError(f"no {kind.__name__}")
