import assert from 'node:assert/strict';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embedMany, generateText, isStepCount, Output, streamText, tool } from 'ai';
import { z } from 'zod';
import {
	answerToTool, key, limitedKey, person, raises, result, run, task, url, vector, weather, wrongKey,
} from './harness.mjs';

const provider = (apiKey = key) => createOpenAICompatible({
	name: 'mindrouter', baseURL: url + '/v1', apiKey, includeUsage: true, supportsStructuredOutputs: true,
});
const called = [];
const tools = {
	[task.tools.tool]: tool({
		description: 'Tells the weather',
		inputSchema: z.object({ city: z.string() }),
		execute: async (args) => (called.push(args), result),
	}),
};
const Person = z.object({ name: z.string().max(12), age: z.number().int().min(0).max(150), mood: z.enum(['good', 'bad']) });

await run({
	async chat() {
		const { model, prompt, says } = task.chat;
		const reply = await generateText({ model: provider()(model), prompt, maxRetries: 0 });
		assert.equal(reply.text, says);
		assert.equal(reply.finishReason, 'stop');
		assert.ok(reply.usage.outputTokens > 0);
	},
	async stream() {
		const { model, prompt, says } = task.chat;
		const reply = streamText({ model: provider()(model), prompt, maxRetries: 0 });
		let text = '';
		for await (const delta of reply.textStream) text += delta;
		assert.equal(text, says);
		assert.ok((await reply.usage).outputTokens > 0);
	},
	async tools() {
		const { model, prompt } = task.tools;
		called.length = 0;
		const reply = await generateText({ model: provider()(model), prompt, tools, stopWhen: isStepCount(3), maxRetries: 0 });
		assert.equal(called.length, 1);
		weather(task.tools.tool, called[0]);
		answerToTool(reply.text);
	},
	async tools_stream() {
		const { model, prompt } = task.tools;
		called.length = 0;
		const reply = streamText({ model: provider()(model), prompt, tools, stopWhen: isStepCount(3), maxRetries: 0 });
		answerToTool(await reply.text);
		assert.equal(called.length, 1);
	},
	async schema() {
		const { model, prompt } = task.schema;
		const reply = await generateText({
			model: provider()(model), prompt, output: Output.object({ schema: Person }), maxRetries: 0,
		});
		person(reply.output);
	},
	async embeddings() {
		const reply = await embedMany({ model: provider().embeddingModel(task.embed.model), values: ['one', 'two'] });
		assert.equal(reply.embeddings.length, 2);
		reply.embeddings.forEach(vector);
	},
	async errors() {
		const ask = (apiKey, model = task.chat.model) =>
			raises(() => generateText({ model: provider(apiKey)(model), prompt: 'hi', maxRetries: 0 }));
		for (const [status, error] of [[401, await ask(wrongKey)], [404, await ask(key, 'nobody')], [429, await ask(limitedKey)]]) {
			assert.ok(APICallError.isInstance(error), String(error));
			assert.equal(error.statusCode, status);
			assert.ok(error.message.length > 10 && !error.message.includes('{'), error.message);
		}
	},
});
