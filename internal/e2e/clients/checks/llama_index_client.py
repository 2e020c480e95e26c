from typing import Literal

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel, Field

from harness import *


def model(name, key=KEY, **options):
    options = {"is_chat_model": True, "is_function_calling_model": True, "context_window": 4096, **options}
    return OpenAILike(model=name, api_base=URL + "/v1", api_key=key, max_retries=0, **options)


def user(text):
    return [ChatMessage(role="user", content=text)]


def chat():
    t = TASK["chat"]
    equal(model(t["model"]).chat(user(t["prompt"])).message.content, t["says"])


def stream():
    t = TASK["chat"]
    parts = list(model(t["model"]).stream_chat(user(t["prompt"])))
    equal("".join(p.delta or "" for p in parts), t["says"])
    equal(parts[-1].message.content, t["says"])


def completion():
    """Without is_chat_model it asks for plain completions."""
    t = TASK["completion"]
    m = model(t["model"], is_chat_model=False, max_tokens=200)  # the protocol's default is 16
    equal(m.complete(t["prompt"]).text, t["says"])
    equal("".join(p.delta or "" for p in m.stream_complete(t["prompt"])), t["says"])


def get_weather(city: str) -> str:
    """Tells the weather"""
    return RESULT


def tools():
    t = TASK["tools"]
    m = model(t["model"])
    tool = FunctionTool.from_defaults(get_weather, name=t["tool"])
    reply = m.chat_with_tools([tool], chat_history=user(t["prompt"]))
    (call,) = m.get_tool_calls_from_response(reply)
    weather(call.tool_name, call.tool_kwargs)
    result = ChatMessage(role="tool", content=RESULT, additional_kwargs={"tool_call_id": call.tool_id})
    reply = m.chat_with_tools([tool], chat_history=user(t["prompt"]) + [reply.message, result])
    answer_to_tool(reply.message.content)


class Person(BaseModel):
    """Somebody"""

    name: str = Field(max_length=12)
    age: int = Field(ge=0, le=150)
    mood: Literal["good", "bad"]


def schema():
    t = TASK["schema"]
    m = model(t["model"], should_use_structured_outputs=True, is_function_calling_model=False)
    person(m.as_structured_llm(Person).chat(user(t["prompt"])).raw.model_dump())


def embeddings():
    e = OpenAILikeEmbedding(model_name=TASK["embed"]["model"], api_base=URL + "/v1", api_key=KEY)
    for v in e.get_text_embedding_batch(["one", "two"]):
        vector(v)


def errors():
    name = TASK["chat"]["model"]
    raises(openai.AuthenticationError, lambda: model(name, WRONG_KEY).chat(user("hi")), 401)
    raises(openai.NotFoundError, lambda: model("nobody").chat(user("hi")), 404)
    raises(openai.RateLimitError, lambda: model(name, LIMITED_KEY).chat(user("hi")), 429)


run(chat, stream, completion, tools, schema, embeddings, errors)
