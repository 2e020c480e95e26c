import { Ollama } from 'ollama';

const client = new Ollama({
	host: 'http://127.0.0.1:8080',
	headers: { Authorization: `Bearer ${process.env.MINDROUTER_KEY}` },
});

const messages = [{ role: 'user', content: 'Say hello.' }];
console.log((await client.chat({ model: 'sim-chat', messages })).message.content);

for await (const part of await client.chat({ model: 'sim-chat', messages, stream: true })) {
	process.stdout.write(part.message.content);
}
