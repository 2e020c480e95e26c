import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import {
	answerToTool, citySchema, key, limitedKey, person, personSchema, raises, result, run, task, url, weather, wrongKey,
} from './harness.mjs';

const client = (apiKey = key) => new Anthropic({ baseURL: url + '/anthropic', apiKey, maxRetries: 0 });
const user = (content) => [{ role: 'user', content }];
const tools = [{ name: task.tools.tool, description: 'Tells the weather', input_schema: citySchema }];

async function after(message) {
	const { model, prompt } = task.tools;
	assert.equal(message.stop_reason, 'tool_use');
	const calls = message.content.filter((block) => block.type === 'tool_use');
	assert.equal(calls.length, 1);
	weather(calls[0].name, calls[0].input);
	const reply = await client().messages.create({
		model, max_tokens: 500, tools,
		messages: [
			...user(prompt),
			{ role: 'assistant', content: message.content },
			{ role: 'user', content: [{ type: 'tool_result', tool_use_id: calls[0].id, content: result }] },
		],
	});
	answerToTool(reply.content[0].text);
}

await run({
	async chat() {
		const { model, prompt, says } = task.chat;
		const reply = await client().messages.create({ model, max_tokens: 500, messages: user(prompt) });
		assert.deepEqual(reply.content.map((b) => b.text), [says]);
		assert.equal(reply.stop_reason, 'end_turn');
		assert.ok(reply.usage.input_tokens > 0 && reply.usage.output_tokens > 0);
	},
	async stream() {
		const { model, prompt, says } = task.chat;
		const stream = client().messages.stream({ model, max_tokens: 500, messages: user(prompt) });
		let text = '';
		stream.on('text', (delta) => (text += delta));
		const final = await stream.finalMessage();
		assert.equal(text, says);
		assert.equal(final.content[0].text, says);
		assert.ok(final.usage.output_tokens > 0);
	},
	async tools() {
		const { model, prompt } = task.tools;
		await after(await client().messages.create({ model, max_tokens: 500, messages: user(prompt), tools }));
	},
	async tools_stream() {
		const { model, prompt } = task.tools;
		await after(await client().messages.stream({ model, max_tokens: 500, messages: user(prompt), tools }).finalMessage());
	},
	async schema() {
		const { model, prompt } = task.schema;
		const reply = await client().messages.create({
			model, max_tokens: 1000, messages: user(prompt),
			output_config: { format: { type: 'json_schema', schema: personSchema } },
		});
		person(JSON.parse(reply.content[0].text));
	},
	async count_tokens() {
		const { model } = task.chat;
		assert.ok((await client().messages.countTokens({ model, messages: user('one two three') })).input_tokens > 0);
	},
	async models() {
		const names = [];
		for await (const model of client().models.list()) names.push(model.id);
		assert.ok(names.includes(task.chat.model), names.join());
	},
	async errors() {
		const ask = (apiKey, model = task.chat.model) =>
			raises(() => client(apiKey).messages.create({ model, max_tokens: 10, messages: user('hi') }));
		assert.ok((await ask(wrongKey)) instanceof Anthropic.AuthenticationError);
		assert.ok((await ask(key, 'nobody')) instanceof Anthropic.NotFoundError);
		const limited = await ask(limitedKey);
		assert.ok(limited instanceof Anthropic.RateLimitError);
		assert.equal(limited.error.error.type, 'rate_limit_error');
		assert.ok(Number(limited.headers.get('retry-after')) > 0 && limited.requestID);
	},
});
