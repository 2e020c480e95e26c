import { ChatOpenAI } from '@langchain/openai';

const model = new ChatOpenAI({
	model: 'sim-chat',
	apiKey: process.env.MINDROUTER_KEY,
	configuration: { baseURL: 'http://127.0.0.1:8080/v1' },
});
console.log((await model.invoke('Say hello.')).content);

for await (const part of await model.stream('Say hello.')) {
	process.stdout.write(part.content);
}
