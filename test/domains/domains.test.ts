// Three domains whose callers see only some records and fields, each as a table of literal requests. The recipes in
// docs/maintainers.md show the same files.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { splitGrant } from '../../plugins/access/profiles/grants.ts';
import { onBothDrivers } from '../support/instance.ts';
import { logIn, makePerson } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { agency } from './agency/requests.ts';
import type { Domain } from './domain.ts';
import { sales } from './sales/requests.ts';
import { support } from './support/requests.ts';

const read = (...path: string[]) => readFileSync(join(import.meta.dirname, ...path), 'utf8');
const filesOf = (name: string) =>
  readdirSync(join(import.meta.dirname, name, 'resources')).map((file) => ({
    file: `resources/${file}`,
    text: read(name, 'resources', file),
  }));
const profilesOf = (name: string) =>
  parse(read(name, 'profiles.yaml')) as Readonly<Record<string, readonly string[]>>;

/** Asserts that a value contains the expected one. An expected undefined stands for an absent key. */
function assertContains(actual: unknown, expected: unknown, message: string): void {
  if (expected instanceof RegExp) assert.match(String(actual), expected, message);
  else if (Array.isArray(expected)) {
    assert.ok(Array.isArray(actual), message);
    assert.equal(actual.length, expected.length, message);
    for (const [index, each] of expected.entries()) assertContains(actual[index], each, message);
  } else if (typeof expected === 'object' && expected !== null) {
    assert.ok(typeof actual === 'object' && actual !== null, message);
    const values = new Map(Object.entries(actual));
    for (const [key, each] of Object.entries(expected)) assertContains(values.get(key), each, message);
  } else assert.deepEqual(actual, expected, message);
}

for (const [name, domain] of Object.entries({ agency, support, sales }) satisfies [string, Domain][])
  onBothDrivers(
    `domain: ${name}`,
    (instance) => {
      const headers: Record<string, Readonly<Record<string, string>>> = {};
      const ids: Record<string, string> = {};
      const withIds = (text: string) => text.replace(/\{(\w+)\}/g, (_, key: string) => ids[key] ?? key);
      const jsonOf = (body: unknown): unknown =>
        typeof body === 'string'
          ? withIds(body)
          : JSON.parse(withIds(JSON.stringify(body).replace(/"(\{\w+\})"/g, '$1')));
      const send = (who: string, text: string, body?: unknown) => {
        const [request = '', ...lines] = withIds(text).split('\n');
        const more = Object.fromEntries(lines.map((line) => line.toLowerCase().split(': ')));
        return instance().call(request, {
          headers: { ...headers[who], ...more },
          ...(body !== undefined && { body: jsonOf(body) }),
        });
      };
      before(async () => {
        const acme = await instance().organization('acme');
        const profiles = profilesOf(name);
        headers.admin = { authorization: `Bearer ${acme.key}` };
        for (const [who, profile] of Object.entries(domain.members)) {
          const grants = (profiles[profile] ?? assert.fail(profile)).map(splitGrant);
          const person = await makePerson(instance(), [{ organization: acme, grants }]);
          headers[who] = (await logIn(instance(), person)).byToken;
          ids[who] = person.id;
        }
        for (const [who, profile] of Object.entries(domain.keys ?? {})) {
          const key = await acme.keyWith((profiles[profile] ?? assert.fail(profile)).map(splitGrant));
          headers[who] = { authorization: `Bearer ${key}` };
        }
        for (const [key, resource, body] of domain.records) {
          const answer = await send('admin', `POST /api/v1/${resource}`, body);
          assert.equal(answer.status, 201, answer.text);
          ids[key] = String(answer.json.id);
        }
        await until(
          async () =>
            ((await send('admin', `GET /events?resources=${domain.resources}&after=`)).json.data as object[])
              .length === domain.records.length,
          'the feed to catch up',
        );
      });
      for (const [who, request, body, status, expected] of domain.requests)
        test(`${who}: ${request.replaceAll('\n', ', ')}`, async () => {
          const answer = await send(who, request, body ?? undefined);
          const message = `${who}: ${request}: ${answer.status} ${answer.text}`;
          assert.equal(answer.status, status, message);
          for (const secret of domain.hidden[who] ?? [])
            assert.ok(!answer.text.includes(secret), `${secret} is hidden. ${message}`);
          if (expected instanceof RegExp) assert.match(answer.text, expected, message);
          else if (expected !== undefined) {
            const { total, ...rest } = expected;
            if (total !== undefined) assert.equal(answer.headers.get('x-total-count'), total, message);
            assertContains(answer.json, rest, message);
          }
        });
    },
    { sources: await sourcesWith(...filesOf(name)) },
  );

describe('recipes', () => {
  const page = read('../../docs/maintainers.md');
  for (const name of ['agency', 'support', 'sales']) {
    for (const { file, text } of filesOf(name))
      test(`${name}: ${file}`, async () => {
        assert.ok(page.includes(`\`\`\`yaml\n# ${file}\n${text}\`\`\``));
        assert.ok(checkSources(await sourcesWith(...filesOf(name))).length > 0);
      });
    test(`${name}: grants`, () => {
      for (const [profile, grants] of Object.entries(profilesOf(name)))
        assert.ok(
          page.includes(`crm profile create ${profile} --org acme --grant ${grants.join(' ')}\n`),
          profile,
        );
    });
  }
});
