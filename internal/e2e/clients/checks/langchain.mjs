import assert from 'node:assert/strict';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { tool } from '@langchain/core/tools';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { z } from 'zod';
import {
	answerToTool, key, limitedKey, person, personSchema, raises, result, run, task, url, vector, weather, wrongKey,
} from './harness.mjs';

const chat = (model, apiKey = key, options = {}) =>
	new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL: url + '/v1' }, ...options });
const getWeather = tool(async () => result, {
	name: task.tools.tool, description: 'Tells the weather', schema: z.object({ city: z.string() }),
});
async function collect(stream) {
	let whole;
	for await (const part of stream) whole = whole ? whole.concat(part) : part;
	return whole;
}

await run({
	async chat() {
		const { model, prompt, says } = task.chat;
		const reply = await chat(model).invoke(prompt);
		assert.equal(reply.content, says);
		assert.ok(reply.usage_metadata.output_tokens > 0);
	},
	async stream() {
		const { model, prompt, says } = task.chat;
		const reply = await collect(await chat(model).stream(prompt));
		assert.equal(reply.content, says);
		assert.ok(reply.usage_metadata.output_tokens > 0);
	},
	async tools() {
		const { model, prompt } = task.tools;
		const bound = chat(model).bindTools([getWeather]);
		const messages = [new HumanMessage(prompt)];
		const reply = await bound.invoke(messages);
		assert.equal(reply.tool_calls.length, 1);
		const [call] = reply.tool_calls;
		weather(call.name, call.args);
		messages.push(reply, new ToolMessage({ content: await getWeather.invoke(call.args), tool_call_id: call.id }));
		answerToTool((await bound.invoke(messages)).content);
	},
	async tools_stream() {
		const { model, prompt } = task.tools;
		const reply = await collect(await chat(model).bindTools([getWeather]).stream(prompt));
		assert.equal(reply.tool_calls.length, 1);
		weather(reply.tool_calls[0].name, reply.tool_calls[0].args);
	},
	async schema() {
		const { model, prompt } = task.schema;
		const structured = chat(model).withStructuredOutput(personSchema, { name: 'person', method: 'jsonSchema' });
		person(await structured.invoke(prompt));
	},
	async responses() {
		const { model, prompt, says } = task.chat;
		const options = { useResponsesApi: true };
		assert.equal((await chat(model, key, options).invoke(prompt)).text, says);
		assert.equal((await collect(await chat(model, key, options).stream(prompt))).text, says);
	},
	async embeddings() {
		const e = new OpenAIEmbeddings({ model: task.embed.model, apiKey: key, configuration: { baseURL: url + '/v1' } });
		(await e.embedDocuments(['one', 'two'])).forEach(vector);
	},
	async errors() {
		const ask = (apiKey, model = task.chat.model) => raises(() => chat(model, apiKey).invoke('hi'));
		assert.equal((await ask(wrongKey)).status, 401);
		assert.equal((await ask(key, 'nobody')).status, 404);
		assert.equal((await ask(limitedKey)).status, 429);
	},
});
