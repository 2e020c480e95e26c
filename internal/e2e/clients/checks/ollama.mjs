import assert from 'node:assert/strict';
import { Ollama } from 'ollama';
import {
	answerToTool, citySchema, key, limitedKey, person, personSchema, raises, result, run, task, url, vector, weather,
	wrongKey,
} from './harness.mjs';

const client = (apiKey = key) => new Ollama({ host: url, headers: { Authorization: `Bearer ${apiKey}` } });
const user = (content) => [{ role: 'user', content }];
const tools = [{ type: 'function', function: { name: task.tools.tool, description: 'Tells the weather', parameters: citySchema } }];

async function after(message) {
	const { model, prompt } = task.tools;
	assert.equal(message.tool_calls.length, 1);
	const [call] = message.tool_calls;
	weather(call.function.name, call.function.arguments);
	const messages = [...user(prompt), message, { role: 'tool', tool_name: call.function.name, content: result }];
	answerToTool((await client().chat({ model, messages, tools })).message.content);
}

await run({
	async chat() {
		const { model, prompt, says } = task.chat;
		const reply = await client().chat({ model, messages: user(prompt) });
		assert.equal(reply.message.content, says);
		assert.equal(reply.done_reason, 'stop');
		assert.ok(reply.eval_count > 0 && reply.prompt_eval_count > 0);
	},
	async stream() {
		const { model, prompt, says } = task.chat;
		let text = '';
		let last;
		for await (const part of await client().chat({ model, messages: user(prompt), stream: true })) {
			text += part.message.content;
			last = part;
		}
		assert.equal(text, says);
		assert.ok(last.done && last.eval_count > 0);
	},
	async generate() {
		const { model, prompt, says } = task.chat;
		assert.equal((await client().generate({ model, prompt })).response, says);
	},
	async tools() {
		const { model, prompt } = task.tools;
		await after((await client().chat({ model, messages: user(prompt), tools })).message);
	},
	async tools_stream() {
		const { model, prompt } = task.tools;
		let message;
		for await (const part of await client().chat({ model, messages: user(prompt), tools, stream: true })) {
			if (part.message.tool_calls?.length) message = part.message;
		}
		await after(message);
	},
	async schema() {
		const { model, prompt } = task.schema;
		const reply = await client().chat({ model, messages: user(prompt), format: personSchema });
		person(JSON.parse(reply.message.content));
	},
	async embeddings() {
		const reply = await client().embed({ model: task.embed.model, input: ['one', 'two'] });
		assert.equal(reply.embeddings.length, 2);
		reply.embeddings.forEach(vector);
	},
	async models() {
		const { models } = await client().list();
		assert.ok(models.some((m) => m.model.replace(/:latest$/, '') === task.chat.model));
		assert.ok((await client().show({ model: task.chat.model })).capabilities.includes('completion'));
		await client().ps();
	},
	async errors() {
		const ask = (apiKey, model = task.chat.model) => raises(() => client(apiKey).chat({ model, messages: user('hi') }));
		for (const [status, error] of [[401, await ask(wrongKey)], [404, await ask(key, 'nobody')], [429, await ask(limitedKey)]]) {
			assert.equal(error.name, 'ResponseError');
			assert.equal(error.status_code, status);
			assert.ok(error.message.length > 10 && !error.message.includes('{'), error.message);
		}
	},
});
