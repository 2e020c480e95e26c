import openai
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from harness import *


def model(name, key=KEY, **options):
    return ChatOpenAI(model=name, base_url=URL + "/v1", api_key=key, max_retries=0, **options)


def chat():
    t = TASK["chat"]
    reply = model(t["model"]).invoke(t["prompt"])
    equal(reply.content, t["says"])
    assert reply.usage_metadata["output_tokens"] > 0, reply


def stream():
    t = TASK["chat"]
    whole = None
    for part in model(t["model"], stream_usage=True).stream(t["prompt"]):
        whole = part if whole is None else whole + part
    equal(whole.content, t["says"])
    assert whole.usage_metadata["output_tokens"] > 0, whole


@tool(TASK["tools"]["tool"])
def get_weather(city: str) -> str:
    """Tells the weather"""
    return RESULT


def tools():
    t = TASK["tools"]
    m = model(t["model"]).bind_tools([get_weather])
    messages = [HumanMessage(t["prompt"])]
    reply = m.invoke(messages)
    (call,) = reply.tool_calls
    weather(call["name"], call["args"])
    answer_to_tool(m.invoke(messages + [reply, get_weather.invoke(call)]).content)


def tools_stream():
    t = TASK["tools"]
    m = model(t["model"]).bind_tools([get_weather])
    whole = None
    for part in m.stream(t["prompt"]):
        whole = part if whole is None else whole + part
    (call,) = whole.tool_calls
    weather(call["name"], call["args"])


def schema():
    t = TASK["schema"]
    m = model(t["model"]).with_structured_output({"title": "person", **PERSON_SCHEMA}, method="json_schema")
    person(m.invoke(t["prompt"]))


def responses():
    t = TASK["chat"]
    m = model(t["model"], use_responses_api=True)
    equal(m.invoke(t["prompt"]).text, t["says"])
    equal("".join(part.text for part in m.stream(t["prompt"])), t["says"])


def embeddings():
    e = OpenAIEmbeddings(
        model=TASK["embed"]["model"], base_url=URL + "/v1", api_key=KEY, check_embedding_ctx_length=False
    )
    for v in e.embed_documents(["one", "two"]):
        vector(v)
    vector(e.embed_query("three"))


def errors():
    name = TASK["chat"]["model"]
    raises(openai.AuthenticationError, lambda: model(name, WRONG_KEY).invoke("hi"), 401)
    raises(openai.NotFoundError, lambda: model("nobody").invoke("hi"), 404)
    raises(openai.RateLimitError, lambda: model(name, LIMITED_KEY).invoke("hi"), 429)
    raises(openai.RateLimitError, lambda: list(model(name, LIMITED_KEY).stream("hi")), 429)


run(chat, stream, tools, tools_stream, schema, responses, embeddings, errors)
