import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCodes } from '../../engine/errors.ts';
import type { Answer, Call, Instance } from './instance.ts';

/** One request and what its answer must and must not be. */
export interface Scenario {
  /** Key of {@link Callers}; absent: no credentials. */
  readonly as?: string;
  /** Method and path, such as `PUT /api/v1/leads/1`. `{name}` is replaced from the values known by then. */
  readonly does: string;
  readonly with?: Call['body'];
  readonly headers?: Call['headers'];
  readonly gets: number;
  /** Parts of the JSON body that must be equal. */
  readonly has?: Readonly<Record<string, unknown>>;
  /** Keys that the JSON body must not have, or texts that must not occur in it. */
  readonly without?: readonly string[];
  /** Further checks. */
  readonly and?: (answer: Answer) => void | Promise<void>;
  /** What to call it, where the request does not say enough. */
  readonly name?: string;
}

/** What scenarios refer to by name: keys of callers, ids of records. */
export interface World {
  readonly callers: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, string>>;
}

/** Makes a test of each scenario. The world is asked for when the tests run. */
export function scenarios(instance: () => Instance, world: () => World, table: readonly Scenario[]): void {
  for (const scenario of table) {
    const body = scenario.with === undefined ? '' : ` ${JSON.stringify(scenario.with)?.slice(0, 60)}`;
    const name = scenario.name ?? `${scenario.as ?? 'nobody'}: ${scenario.does}${body}`;
    test(`${name} → ${scenario.gets}`, async () => {
      const { callers, values } = world();
      const request = scenario.does.replace(/\{(\w+)\}/g, (_, key: string) => values[key] ?? `no ${key}`);
      const key = scenario.as === undefined ? undefined : callers[scenario.as];
      const answer = await instance().call(request, {
        ...(key === undefined ? {} : { key }),
        ...(scenario.with === undefined ? {} : { body: scenario.with }),
        ...(scenario.headers === undefined ? {} : { headers: scenario.headers }),
      });
      await check(scenario, answer);
    });
  }
}

async function check(scenario: Scenario, answer: Answer): Promise<void> {
  assert.equal(answer.status, scenario.gets, answer.text);
  if (answer.status >= 400) assertErrorShape(answer);
  for (const [key, value] of Object.entries(scenario.has ?? {})) {
    assert.deepEqual(answer.json[key], value, `${key} in ${answer.text}`);
  }
  for (const unwanted of scenario.without ?? []) {
    assert.ok(!answer.text.includes(unwanted), `${unwanted} occurs in ${answer.text}`);
  }
  await scenario.and?.(answer);
}

/** An error but for what differs between two requests that get the same. */
export function errorOf(answer: Answer): Readonly<Record<string, unknown>> {
  assertErrorShape(answer);
  const { request_id, ...same } = answer.json;
  return same;
}

/** Every error is JSON with a text, a code and the id of its request, and shows nothing of the inside. */
export function assertErrorShape(answer: Answer): void {
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
  const { error, code, fields, more, request_id, ...others } = answer.json;
  assert.equal(typeof error, 'string');
  assert.deepEqual(Object.keys(others), []);
  assert.ok(Object.hasOwn(errorCodes, String(code)), `${code} is a code`);
  assert.ok(fields === undefined || Array.isArray(fields));
  // At most 100 fields; the number of omitted ones.
  if (more !== undefined) assert.deepEqual([typeof more, (fields as unknown[]).length], ['number', 100]);
  assert.match(String(request_id), /^[\w.:-]+$/);
  assert.equal(request_id, answer.headers.get('x-request-id'));
  assert.doesNotMatch(answer.text, /select |insert |update "|\bat .*\.ts:|constraint|relation "/);
}
