import os
from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8080/v1", api_key=os.environ["MINDROUTER_KEY"])

question = [{"role": "user", "content": "Say hello."}]
reply = client.chat.completions.create(model="sim-chat", messages=question)
print(reply.choices[0].message.content)

for chunk in client.chat.completions.create(model="sim-chat", messages=question, stream=True):
    print(chunk.choices[0].delta.content or "", end="")

print(client.responses.create(model="sim-chat", input="Say hello.").output_text)

vectors = client.embeddings.create(model="sim-embed", input=["one text", "another"])
print(len(vectors.data))
