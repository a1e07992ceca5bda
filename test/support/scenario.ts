import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCodes } from '../../engine/errors.ts';
import type { Answer, Call, Instance } from './instance.ts';

/** A request and the checks on its response. */
export interface Scenario {
  /** Name of the caller's key in {@link World.callers}. Absent for unauthenticated requests. */
  readonly as?: string;
  /**
   * Method and path, for example `PUT /api/v1/leads/1`. `{name}` is replaced with a named value that is
   * already known.
   */
  readonly does: string;
  readonly with?: Call['body'];
  readonly headers?: Call['headers'];
  readonly gets: number;
  /** Required parts of the JSON body. */
  readonly has?: Readonly<Record<string, unknown>>;
  /** Keys that the JSON body must not have, or strings that it must not contain. */
  readonly without?: readonly string[];
  /** Additional checks. */
  readonly and?: (answer: Answer) => void | Promise<void>;
  /** Test name, if the request alone does not explain the scenario. */
  readonly name?: string;
}

/** Values that scenarios refer to by name: callers' keys and record IDs. */
export interface World {
  readonly callers: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, string>>;
}

/** Declares a test for each scenario. The world is requested only when the tests run. */
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

/** Returns an error without its request ID, which differs between identical requests, and its hints, which its messages contain. */
export function errorOf(answer: Answer): Readonly<Record<string, unknown>> {
  assertErrorShape(answer);
  const { request_id, hint: _, ...same } = answer.json;
  return { ...same, ...(same.fields !== undefined && { fields: withoutHints(same.fields) }) };
}

/** Returns the entries of an error's `fields` without their hints. */
export const withoutHints = (fields: unknown): unknown =>
  Array.isArray(fields) ? fields.map(({ hint: _, ...field }) => field) : fields;

/** Checks that an error is JSON with a message, a code and the request ID, and does not reveal internals. */
export function assertErrorShape(answer: Answer): void {
  assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
  const { error, code, hint, fields, more, referrers, grant, request_id, ...others } = answer.json;
  assert.equal(typeof error, 'string');
  assert.deepEqual(Object.keys(others), []);
  if (hint !== undefined) assert.ok(hint !== '' && String(error).endsWith(String(hint)), answer.text);
  if (grant !== undefined) assert.ok(answer.status === 403 && String(error).endsWith(`the grant ${grant}.`));
  assert.ok(Object.hasOwn(errorCodes, String(code)), `${code} is not an error code`);
  assert.ok(fields === undefined || Array.isArray(fields));
  for (const field of fields ?? []) assert.ok(field.message.endsWith(field.hint ?? ''), answer.text);
  assert.equal(referrers !== undefined, code === 'referenced');
  // At most 100 fields are listed, and `more` is the number of omitted fields.
  if (more !== undefined) assert.deepEqual([typeof more, (fields as unknown[]).length], ['number', 100]);
  assert.match(String(request_id), /^[\w.:-]+$/);
  assert.equal(request_id, answer.headers.get('x-request-id'));
  assert.doesNotMatch(answer.text, /select |insert |update "|\bat .*\.ts:|constraint|relation "/);
}
