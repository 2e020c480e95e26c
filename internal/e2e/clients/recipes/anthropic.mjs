import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({ baseURL: 'http://127.0.0.1:8080/anthropic', apiKey: process.env.MINDROUTER_KEY });

const messages = [{ role: 'user', content: 'Say hello.' }];
const reply = await client.messages.create({ model: 'sim-chat', max_tokens: 500, messages });
console.log(reply.content[0].text);

const stream = client.messages.stream({ model: 'sim-chat', max_tokens: 500, messages });
stream.on('text', (text) => process.stdout.write(text));
await stream.finalMessage();
