import OpenAI from 'openai';

const client = new OpenAI({ baseURL: 'http://127.0.0.1:8080/v1', apiKey: process.env.MINDROUTER_KEY });

const messages = [{ role: 'user', content: 'Say hello.' }];
const reply = await client.chat.completions.create({ model: 'sim-chat', messages });
console.log(reply.choices[0].message.content);

for await (const chunk of await client.chat.completions.create({ model: 'sim-chat', messages, stream: true })) {
	process.stdout.write(chunk.choices[0].delta.content ?? '');
}
