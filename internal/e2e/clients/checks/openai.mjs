import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
	answerToTool, citySchema, key, limitedKey, person, raises, result, run, task, url, vector, weather, wrongKey,
} from './harness.mjs';

const client = (apiKey = key) => new OpenAI({ baseURL: url + '/v1', apiKey, maxRetries: 0 });
const user = (content) => [{ role: 'user', content }];
const tools = [{ type: 'function', function: { name: task.tools.tool, description: 'Tells the weather', parameters: citySchema } }];
const Person = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(150), mood: z.enum(['good', 'bad']) });

await run({
	async chat() {
		const { model, prompt, says } = task.chat;
		const reply = await client().chat.completions.create({ model, messages: user(prompt) });
		assert.equal(reply.choices[0].message.content, says);
		assert.equal(reply.choices[0].finish_reason, 'stop');
		assert.ok(reply.usage.completion_tokens > 0);
	},
	async stream() {
		const { model, prompt, says } = task.chat;
		const stream = client().chat.completions.stream({
			model, messages: user(prompt), stream_options: { include_usage: true },
		});
		let text = '';
		stream.on('content', (delta) => (text += delta));
		const final = await stream.finalChatCompletion();
		assert.equal(text, says);
		assert.equal(final.choices[0].message.content, says);
		assert.ok((await stream.totalUsage()).completion_tokens > 0);
	},
	async tools() {
		const { model, prompt } = task.tools;
		const messages = user(prompt);
		const first = await client().chat.completions.create({ model, messages, tools });
		const message = first.choices[0].message;
		assert.equal(message.tool_calls.length, 1);
		const [call] = message.tool_calls;
		weather(call.function.name, JSON.parse(call.function.arguments));
		messages.push(message, { role: 'tool', tool_call_id: call.id, content: result });
		const second = await client().chat.completions.create({ model, messages, tools });
		answerToTool(second.choices[0].message.content);
	},
	// The client's own runner streams, calls the function and asks again.
	async tools_stream() {
		const { model, prompt } = task.tools;
		const called = [];
		const runner = client().chat.completions.runTools({
			model, messages: user(prompt), stream: true,
			tools: [{
				type: 'function',
				function: {
					name: task.tools.tool, description: 'Tells the weather', parameters: citySchema, parse: JSON.parse,
					function: (args) => (called.push(args), result),
				},
			}],
		});
		answerToTool(await runner.finalContent());
		assert.equal(called.length, 1);
		weather(task.tools.tool, called[0]);
	},
	async schema() {
		const { model, prompt } = task.schema;
		const reply = await client().chat.completions.parse({
			model, messages: user(prompt), response_format: zodResponseFormat(Person, 'person'),
		});
		person(reply.choices[0].message.parsed);
	},
	async responses() {
		const { model, prompt, says } = task.chat;
		const first = await client().responses.create({ model, input: prompt });
		assert.equal(first.output_text, says);
		const stream = client().responses.stream({ model, input: prompt, previous_response_id: first.id });
		let text = '';
		stream.on('response.output_text.delta', (event) => (text += event.delta));
		const final = await stream.finalResponse();
		assert.equal(text, says);
		assert.equal(final.previous_response_id, first.id);
		await client().responses.delete(first.id);
	},
	async embeddings() {
		const reply = await client().embeddings.create({ model: task.embed.model, input: ['one', 'two'] });
		assert.deepEqual(reply.data.map((d) => d.index), [0, 1]);
		for (const d of reply.data) vector(d.embedding);
	},
	async models() {
		const names = [];
		for await (const model of client().models.list()) names.push(model.id);
		assert.ok(names.includes(task.chat.model), names.join());
	},
	async errors() {
		for (const stream of [false, true]) {
			const ask = (apiKey, model = task.chat.model) =>
				raises(() => client(apiKey).chat.completions.create({ model, messages: user('hi'), stream }));
			assert.ok((await ask(wrongKey)) instanceof OpenAI.AuthenticationError);
			const unknown = await ask(key, 'nobody');
			assert.ok(unknown instanceof OpenAI.NotFoundError);
			assert.equal(unknown.code, 'model_not_found');
			const limited = await ask(limitedKey);
			assert.ok(limited instanceof OpenAI.RateLimitError);
			assert.ok(Number(limited.headers.get('retry-after')) > 0 && limited.requestID);
		}
	},
});
