// Package clients proves that MindRouter serves programs that this project did not write: the client libraries of npm
// and PyPI that people use most, and coding agents.
//
// It has no code of its own, only tests, which `make test-real` runs: they carry the build tag real. Three folders beside
// them are not Go.
//
//   - checks: for each library a program that does with it what people do (chat, streams, tools, structured output,
//     embeddings, errors) and tells the result of each, line by line.
//   - recipes: what docs/protocols.md tells users to copy. Each is run as it stands.
//   - sdks and agents: what npm installs, and requirements.txt what pip installs; every version is pinned.
//
// The libraries talk through a gateway to simulated servers, one of each engine, and to a real Ollama. The agents talk
// to simulated servers that answer from a script: real prompts of agents are long and change with every version, so
// tests look at what an agent did, never at what it wrote.
package clients
