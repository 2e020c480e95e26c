import json

import anthropic
from anthropic import Anthropic

from harness import *


def client(key=KEY):
    return Anthropic(base_url=URL + "/anthropic", api_key=key, max_retries=0)


def user(text):
    return [{"role": "user", "content": text}]


def chat():
    t = TASK["chat"]
    reply = client().messages.create(model=t["model"], max_tokens=500, messages=user(t["prompt"]))
    equal([(b.type, b.text) for b in reply.content], [("text", t["says"])])
    equal(reply.stop_reason, "end_turn")
    assert reply.usage.input_tokens > 0 and reply.usage.output_tokens > 0, reply.usage


def stream():
    t = TASK["chat"]
    with client().messages.stream(model=t["model"], max_tokens=500, messages=user(t["prompt"])) as s:
        equal("".join(s.text_stream), t["says"])
        final = s.get_final_message()
    equal(final.content[0].text, t["says"])
    equal(final.stop_reason, "end_turn")
    assert final.usage.output_tokens > 0, final.usage


TOOLS = [{"name": TASK["tools"]["tool"], "description": "Tells the weather", "input_schema": CITY_SCHEMA}]


def after(message):
    t = TASK["tools"]
    (call,) = [b for b in message.content if b.type == "tool_use"]
    equal(message.stop_reason, "tool_use")
    weather(call.name, call.input)
    messages = user(t["prompt"]) + [
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT}]},
    ]
    reply = client().messages.create(model=t["model"], max_tokens=500, messages=messages, tools=TOOLS)
    answer_to_tool(reply.content[0].text)


def tools():
    t = TASK["tools"]
    after(client().messages.create(model=t["model"], max_tokens=500, messages=user(t["prompt"]), tools=TOOLS))


def tools_stream():
    t = TASK["tools"]
    with client().messages.stream(model=t["model"], max_tokens=500, messages=user(t["prompt"]), tools=TOOLS) as s:
        after(s.get_final_message())


def schema():
    t = TASK["schema"]
    reply = client().messages.create(
        model=t["model"],
        max_tokens=1000,
        messages=user(t["prompt"]),
        output_config={"format": {"type": "json_schema", "schema": PERSON_SCHEMA}},
    )
    person(json.loads(reply.content[0].text))


def count_tokens():
    t = TASK["chat"]
    assert client().messages.count_tokens(model=t["model"], messages=user("one two three")).input_tokens > 0


def models():
    names = [m.id for m in client().models.list()]
    assert TASK["chat"]["model"] in names, names


def errors():
    def ask(key, model=TASK["chat"]["model"]):
        return lambda: client(key).messages.create(model=model, max_tokens=10, messages=user("hi"))

    raises(anthropic.AuthenticationError, ask(WRONG_KEY), 401)
    raises(anthropic.NotFoundError, ask(KEY, "nobody"), 404)
    error = raises(anthropic.RateLimitError, ask(LIMITED_KEY), 429)
    equal(error.body["error"]["type"], "rate_limit_error")
    assert int(error.response.headers["retry-after"]) > 0 and error.request_id, error.response.headers


run(chat, stream, tools, tools_stream, schema, count_tokens, models, errors)
