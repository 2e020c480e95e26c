import json

from ollama import Client, ResponseError

from harness import *


def client(key=KEY):
    return Client(host=URL, headers={"Authorization": "Bearer " + key})


def user(text):
    return [{"role": "user", "content": text}]


def chat():
    t = TASK["chat"]
    reply = client().chat(model=t["model"], messages=user(t["prompt"]))
    equal(reply.message.content, t["says"])
    equal(reply.done_reason, "stop")
    assert reply.eval_count > 0 and reply.prompt_eval_count > 0, reply


def stream():
    t = TASK["chat"]
    parts = list(client().chat(model=t["model"], messages=user(t["prompt"]), stream=True))
    equal("".join(p.message.content or "" for p in parts), t["says"])
    equal([p.done for p in parts].count(True), 1)
    assert parts[-1].done and parts[-1].eval_count > 0, parts[-1]


def generate():
    t = TASK["chat"]
    equal(client().generate(model=t["model"], prompt=t["prompt"]).response, t["says"])
    parts = client().generate(model=t["model"], prompt=t["prompt"], stream=True)
    equal("".join(p.response for p in parts), t["says"])


TOOLS = [
    {
        "type": "function",
        "function": {"name": TASK["tools"]["tool"], "description": "Tells the weather", "parameters": CITY_SCHEMA},
    }
]


def after(message):
    t = TASK["tools"]
    (call,) = message.tool_calls
    weather(call.function.name, call.function.arguments)
    messages = user(t["prompt"]) + [message, {"role": "tool", "tool_name": call.function.name, "content": RESULT}]
    answer_to_tool(client().chat(model=t["model"], messages=messages, tools=TOOLS).message.content)


def tools():
    t = TASK["tools"]
    after(client().chat(model=t["model"], messages=user(t["prompt"]), tools=TOOLS).message)


def tools_stream():
    t = TASK["tools"]
    parts = client().chat(model=t["model"], messages=user(t["prompt"]), tools=TOOLS, stream=True)
    (message,) = [p.message for p in parts if p.message.tool_calls]
    after(message)


def schema():
    t = TASK["schema"]
    reply = client().chat(model=t["model"], messages=user(t["prompt"]), format=PERSON_SCHEMA)
    person(json.loads(reply.message.content))


def embeddings():
    reply = client().embed(model=TASK["embed"]["model"], input=["one", "two"])
    equal(len(reply.embeddings), 2)
    for v in reply.embeddings:
        vector(v)


def models():
    names = [m.model for m in client().list().models]
    assert TASK["chat"]["model"] in [n.removesuffix(":latest") for n in names], names
    assert "completion" in client().show(TASK["chat"]["model"]).capabilities
    client().ps()


def errors():
    def ask(key, model=TASK["chat"]["model"], stream=False):
        return lambda: list(client(key).chat(model=model, messages=user("hi"), stream=stream))

    for stream in (False, True):
        raises(ResponseError, ask(WRONG_KEY, stream=stream), 401)
        raises(ResponseError, ask(KEY, "nobody", stream=stream), 404)
        raises(ResponseError, ask(LIMITED_KEY, stream=stream), 429)


run(chat, stream, generate, tools, tools_stream, schema, embeddings, models, errors)
