// Sends every request in the table "What you can do in one request" of docs/api.md, in its order.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { projectFolder } from '../../engine/config/index.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { sourcesOfGuide } from '../support/sources.ts';

/** A row of the table. */
interface Task {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or lines of a file in which ↵ stands for a line break. */
  readonly body: string | undefined;
}

const guide = readFileSync(join(projectFolder, 'docs/api.md'), 'utf8');
const [, table = ''] = /^## What you can do in one request\n([\s\S]*?)^## /m.exec(guide) ?? [];
const tasks: readonly Task[] = [...table.matchAll(/^\| (?!Task|---)(.*?) \| (`.*`) \|$/gm)].map(
  ([, name = '', cell = '']) => {
    const [request = '', ...parts] = [...cell.matchAll(/`(.*?)`/g)].map(([, text = '']) => text);
    const space = request.indexOf(' ');
    const headers = parts.flatMap((part) => {
      const [, header, value] = /^([A-Z][\w-]*): (.*)$/.exec(part) ?? [];
      return header === undefined || value === undefined ? [] : [[header, value] as const];
    });
    return {
      name,
      method: request.slice(0, space),
      path: request.slice(space + 1),
      headers: Object.fromEntries(headers),
      body: parts.find((part) => !/^[A-Z][\w-]*: /.test(part)),
    };
  },
);

const listed =
  (count: number) =>
  ({ json }: Answer) => {
    assert.equal((json.data as readonly unknown[]).length, count);
  };
const written =
  (count: number) =>
  ({ json }: Answer) => {
    assert.equal((json.results as readonly unknown[]).length, count);
  };
const hasFields =
  (fields: Readonly<Record<string, unknown>>) =>
  ({ json }: Answer) => {
    assert.deepEqual(Object.fromEntries(Object.keys(fields).map((name) => [name, json[name]])), fields);
  };
const textMatches =
  (pattern: RegExp) =>
  ({ text }: Answer) => {
    assert.match(text, pattern);
  };

/** What the responses must contain. */
const expectations: Readonly<Record<string, (answer: Answer) => void>> = {
  'Find a person by email address, regardless of case': listed(1),
  'Find a person by phone number, regardless of punctuation': listed(1),
  'Search words in several fields': listed(1),
  'List records that meet any of several conditions': listed(1),
  'Sort by several fields': ({ json }) =>
    assert.deepEqual(
      (json.data as readonly { amount: number }[]).map(({ amount }) => amount),
      [1200.5, 300],
    ),
  'Read several records by ID': listed(2),
  'List records without an owner': listed(0),
  'List records that changed since a time': listed(2),
  'List the open cases of an account': listed(2),
  'Read a record with the records that refer to it': textMatches(
    /"contacts":\{"data":\[\{.*"opportunities":\{"data":\[\{/,
  ),
  'Read only some fields': ({ json }) =>
    assert.deepEqual((json.data as readonly object[]).map(Object.keys), [
      ['id', 'company', 'status'],
      ['id', 'company', 'status'],
    ]),
  'Count matching records': ({ headers }) => assert.equal(headers.get('x-total-count'), '2'),
  'Sum the pipeline by stage': ({ json }) =>
    assert.deepEqual(json.data, [{ stage: 'Negotiation', 'sum(amount)': 1500.5, 'count()': 2 }]),
  'Count new records per month in a time zone': textMatches(/"count\(\)":2/),
  'Export a list as CSV': textMatches(/^id,.*\r\n1,.*Lovelace.*\r\n$/s),
  'Create a record exactly once, even if the request is repeated': hasFields({ last_name: 'Hamilton' }),
  'Create many records, all or none': written(2),
  'Create or update by a unique field': textMatches(/"status":200,"id":1\b/),
  'Import a spreadsheet with its own column names': hasFields({ created: 1, failed: 0 }),
  'Import and update by a unique field': hasFields({ created: 0, updated: 1, failed: 0 }),
  'Check an import without writing': hasFields({ created: 1, dry_run: true }),
  'Change one field': hasFields({ rating: 'Hot' }),
  'Change a field only if the record has not changed': hasFields({ rating: 'Warm' }),
  'Change many records, all or none': written(2),
  'Count the records that a change of all matching records would write, before you confirm it': ({
    json,
  }) => {
    assert.equal(json.count, 1);
    assert.match(String(json.confirm), /\S/);
  },
  'Merge a duplicate': hasFields({ id: 1, title: 'Captain', department: 'Navy' }),
  'Undo the merge': hasFields({ id: 1, title: 'Captain', department: '' }),
  'Delete many records, all or none': written(1),
  'Read who changed what in a record': textMatches(/"changed":\["updated_at","rating"\]/),
  'Read all changes, including deletions, since a position': textMatches(/"action":"create"/),
  'Be notified when a deal is won': hasFields({ resources: ['opportunities'], actions: ['update'] }),
  'Ask what a key may do': textMatches(/"update":\{"allowed":true\}/),
};

const sources = await sourcesOfGuide();

onBothDrivers(
  'what one request can do',
  (instance) => {
    let organization: Organization;
    const send = async (request: string, body?: unknown, headers = {}): Promise<Answer> => {
      const answer = await instance().call(request, { key: organization.key, body, headers });
      assert.ok(answer.status < 300, `${request}: ${answer.text}`);
      return answer;
    };
    before(async () => {
      organization = await instance().organization('acme');
      await send('POST /api/v1/leads', {
        first_name: 'Ada',
        last_name: 'Lovelace',
        company: 'Analytical Engines',
        email: 'Ada@engines.example',
        phone: '0171 5550170',
        rating: 'Hot',
      });
      await send('POST /api/v1/leads', { last_name: 'Babbage' });
      await send('POST /api/v1/accounts', { name: 'Engines' });
      await send('POST /api/v1/contacts', {
        account_id: 1,
        last_name: 'Hopper',
        email: 'grace@navy.example',
      });
      await send('POST /api/v1/contacts', { last_name: 'Hopper', department: 'Navy' });
      for (const amount of [1200.5, 300])
        await send('POST /api/v1/opportunities', {
          name: 'Looms',
          account_id: 1,
          amount,
          stage: 'Negotiation',
        });
      for (const subject of ['Late', 'Lost']) await send('POST /api/v1/cases', { subject, account_id: 1 });
    });

    test('has an expectation for every row', () =>
      assert.deepEqual(
        tasks.map(({ name }) => name),
        Object.keys(expectations),
      ));

    for (const { name, method, path, headers, body } of tasks)
      test(name, async () => {
        const url = new URL(
          path.startsWith('/auth') || path.startsWith('/events') ? path : `/api/v1${path}`,
          instance().url,
        );
        const type = headers['Content-Type'] === undefined ? undefined : body?.replaceAll('↵', '\n');
        const value = type ?? (body === undefined ? undefined : (JSON.parse(body) as unknown));
        const answer = await send(`${method} ${url.pathname}${url.search}`, value, headers);
        expectations[name]?.(answer);
      });
  },
  { sources },
);
