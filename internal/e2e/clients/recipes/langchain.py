import os
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

server = {"base_url": "http://127.0.0.1:8080/v1", "api_key": os.environ["MINDROUTER_KEY"]}

model = ChatOpenAI(model="sim-chat", stream_usage=True, **server)
print(model.invoke("Say hello.").content)

for part in model.stream("Say hello."):
    print(part.content, end="")

# Without the option it splits texts into tokens of OpenAI's models, whose vocabulary it downloads.
embeddings = OpenAIEmbeddings(model="sim-embed", check_embedding_ctx_length=False, **server)
print(len(embeddings.embed_query("one text")))
