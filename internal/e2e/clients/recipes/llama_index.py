import os
from llama_index.embeddings.openai_like import OpenAILikeEmbedding
from llama_index.llms.openai_like import OpenAILike

server = {"api_base": "http://127.0.0.1:8080/v1", "api_key": os.environ["MINDROUTER_KEY"]}

model = OpenAILike(
    model="sim-chat",
    context_window=32768,  # of the model
    is_chat_model=True,  # otherwise it asks for plain completions
    is_function_calling_model=True,
    **server,
)
print(model.complete("Say hello.").text)

for part in model.stream_complete("Say hello."):
    print(part.delta, end="")

embeddings = OpenAILikeEmbedding(model_name="sim-embed", **server)
print(len(embeddings.get_text_embedding("one text")))
