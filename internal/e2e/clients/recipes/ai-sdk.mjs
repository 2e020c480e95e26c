import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';

const mindrouter = createOpenAICompatible({
	name: 'mindrouter',
	baseURL: 'http://127.0.0.1:8080/v1',
	apiKey: process.env.MINDROUTER_KEY,
	includeUsage: true,
	supportsStructuredOutputs: true, // otherwise schemas are not sent
});

console.log((await generateText({ model: mindrouter('sim-chat'), prompt: 'Say hello.' })).text);

for await (const text of streamText({ model: mindrouter('sim-chat'), prompt: 'Say hello.' }).textStream) {
	process.stdout.write(text);
}
