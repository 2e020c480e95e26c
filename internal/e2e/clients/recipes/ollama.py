import os
from ollama import Client

client = Client(
    host="http://127.0.0.1:8080",
    headers={"Authorization": "Bearer " + os.environ["MINDROUTER_KEY"]},
)

question = [{"role": "user", "content": "Say hello."}]
print(client.chat(model="sim-chat", messages=question).message.content)

for part in client.chat(model="sim-chat", messages=question, stream=True):
    print(part.message.content, end="")

print(len(client.embed(model="sim-embed", input=["one text", "another"]).embeddings))
