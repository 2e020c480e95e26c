import os
from anthropic import Anthropic

client = Anthropic(base_url="http://127.0.0.1:8080/anthropic", api_key=os.environ["MINDROUTER_KEY"])

question = [{"role": "user", "content": "Say hello."}]
reply = client.messages.create(model="sim-chat", max_tokens=500, messages=question)
print(reply.content[0].text)

with client.messages.stream(model="sim-chat", max_tokens=500, messages=question) as stream:
    for text in stream.text_stream:
        print(text, end="")
