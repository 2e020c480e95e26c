// What the checks of every JavaScript client share: the gateway, what to ask for, and how to tell the result.
//
// Each check prints one line, which the Go test reads: "ok NAME", or "not ok NAME " and the reason as JSON.

import assert from 'node:assert/strict';

export const url = process.env.MINDROUTER_URL;
export const key = process.env.MINDROUTER_KEY;
export const wrongKey = 'mr2_wrong';
export const task = JSON.parse(process.env.MINDROUTER_TASK);
export const limitedKey = task.limited_key; // has no request left
export const result = '21, sunny';

export const citySchema = {
	type: 'object',
	properties: { city: { type: 'string', description: 'name of the city' } },
	required: ['city'],
};
export const personSchema = {
	type: 'object',
	properties: {
		name: { type: 'string', maxLength: 12 },
		age: { type: 'integer', minimum: 0, maximum: 150 },
		mood: { type: 'string', enum: ['good', 'bad'] },
	},
	required: ['name', 'age', 'mood'],
	additionalProperties: false,
};

// run runs the checks in order, all of them.
export async function run(checks) {
	for (const [name, check] of Object.entries(checks)) {
		try {
			await check();
			console.log('ok', name);
		} catch (error) {
			console.log('not ok', name, JSON.stringify(String(error?.stack ?? error).slice(0, 2000)));
		}
	}
}

export function person(value) {
	assert.deepEqual(Object.keys(value).sort(), ['age', 'mood', 'name']);
	assert.equal(typeof value.name, 'string');
	assert.ok(Number.isInteger(value.age) && ['good', 'bad'].includes(value.mood), JSON.stringify(value));
}

export function weather(name, args) {
	assert.equal(name, task.tools.tool);
	assert.ok(typeof args.city === 'string' && args.city !== '', JSON.stringify(args));
}

export function answerToTool(text) {
	assert.ok(text.includes(task.tools.after), `${JSON.stringify(text)} does not use the result of the tool`);
}

export function vector(values) {
	assert.equal(values.length, task.embed.dims);
	assert.ok(Array.from(values).some((v) => v !== 0));
}

// raises checks that a call fails and returns the error.
export async function raises(call) {
	try {
		await call();
	} catch (error) {
		return error;
	}
	return assert.fail('no error');
}
