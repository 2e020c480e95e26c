import json

import openai
from openai import OpenAI
from pydantic import BaseModel, Field
from typing import Literal

from harness import *


def client(key=KEY):
    return OpenAI(base_url=URL + "/v1", api_key=key, max_retries=0)


def user(text):
    return [{"role": "user", "content": text}]


def chat():
    t = TASK["chat"]
    reply = client().chat.completions.create(model=t["model"], messages=user(t["prompt"]))
    equal(reply.choices[0].message.content, t["says"])
    equal(reply.choices[0].finish_reason, "stop")
    assert reply.usage.completion_tokens > 0 and reply.usage.prompt_tokens > 0, reply.usage


def stream():
    t = TASK["chat"]
    text, usage, finish = "", None, None
    for chunk in client().chat.completions.create(
        model=t["model"], messages=user(t["prompt"]), stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    equal(text, t["says"])
    equal(finish, "stop")
    assert usage.completion_tokens > 0, usage


TOOLS = [
    {
        "type": "function",
        "function": {"name": TASK["tools"]["tool"], "description": "Tells the weather", "parameters": CITY_SCHEMA},
    }
]


def tools():
    t = TASK["tools"]
    messages = user(t["prompt"])
    message = client().chat.completions.create(model=t["model"], messages=messages, tools=TOOLS).choices[0].message
    (call,) = message.tool_calls
    weather(call.function.name, json.loads(call.function.arguments))
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": RESULT}]
    reply = client().chat.completions.create(model=t["model"], messages=messages, tools=TOOLS)
    answer_to_tool(reply.choices[0].message.content)


def tools_stream():
    """The client's own accumulator puts the call together."""
    t = TASK["tools"]
    with client().chat.completions.stream(model=t["model"], messages=user(t["prompt"]), tools=TOOLS) as s:
        for _ in s:
            pass
        choice = s.get_final_completion().choices[0]
    equal(choice.finish_reason, "tool_calls")
    (call,) = choice.message.tool_calls
    weather(call.function.name, json.loads(call.function.arguments))


class Person(BaseModel):
    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    mood: Literal["good", "bad"]


def schema():
    t = TASK["schema"]
    reply = client().chat.completions.parse(model=t["model"], messages=user(t["prompt"]), response_format=Person)
    person(reply.choices[0].message.parsed.model_dump())


def responses():
    t = TASK["chat"]
    first = client().responses.create(model=t["model"], input=t["prompt"])
    equal(first.output_text, t["says"])
    text, final = "", None
    with client().responses.stream(model=t["model"], input=t["prompt"], previous_response_id=first.id) as s:
        for event in s:
            if event.type == "response.output_text.delta":
                text += event.delta
        final = s.get_final_response()
    equal(text, t["says"])
    equal(final.output_text, t["says"])
    equal(final.previous_response_id, first.id)
    equal(client().responses.retrieve(first.id).output_text, t["says"])
    client().responses.delete(first.id)


def responses_tools():
    t = TASK["tools"]
    tool = {"type": "function", "name": t["tool"], "description": "Tells the weather", "parameters": CITY_SCHEMA}
    reply = client().responses.create(model=t["model"], input=t["prompt"], tools=[tool])
    (call,) = [item for item in reply.output if item.type == "function_call"]
    weather(call.name, json.loads(call.arguments))
    output = [{"type": "function_call_output", "call_id": call.call_id, "output": RESULT}]
    reply = client().responses.create(model=t["model"], input=output, tools=[tool], previous_response_id=reply.id)
    answer_to_tool(reply.output_text)


def embeddings():
    reply = client().embeddings.create(model=TASK["embed"]["model"], input=["one", "two"])
    equal([d.index for d in reply.data], [0, 1])
    for d in reply.data:
        vector(d.embedding)


def models():
    names = [m.id for m in client().models.list()]
    assert TASK["chat"]["model"] in names, names
    equal(client().models.retrieve(TASK["chat"]["model"]).id, TASK["chat"]["model"])


def errors():
    def ask(key, model=TASK["chat"]["model"], **options):
        return lambda: client(key).chat.completions.create(model=model, messages=user("hi"), **options)

    for options in ({}, {"stream": True}):
        equal(raises(openai.AuthenticationError, ask(WRONG_KEY, **options), 401).code, "invalid_api_key")
        equal(raises(openai.NotFoundError, ask(KEY, "nobody", **options), 404).code, "model_not_found")
        error = raises(openai.RateLimitError, ask(LIMITED_KEY, **options), 429)
        assert int(error.response.headers["retry-after"]) > 0 and error.request_id, error.response.headers


run(chat, stream, tools, tools_stream, schema, responses, responses_tools, embeddings, models, errors)
