// Parts of operations that do not need a database: retries, reservations, pauses, readers of lines, and texts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import type { Database } from '../../engine/database/index.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { errors, HttpError } from '../../engine/errors.ts';
import { type Field, fieldTypes } from '../../engine/fields/index.ts';
import type { ParsedQuery } from '../../engine/query/index.ts';
import { uploads } from '../../engine/records/import.ts';
import { indexes } from '../../engine/records/indexes.ts';
import { idOfJob, jobJson } from '../../engine/records/jobs.ts';
import { csvLines, type LineReader, ndjsonLines } from '../../engine/records/line-parsers.ts';
import { changeableFields } from '../../engine/records/lock-triggers.ts';
import { matchingStates } from '../../engine/records/matching-states.ts';
import type { OperationContext } from '../../engine/records/operation.ts';
import { bodyRequirements, operations, operationsOf } from '../../engine/records/operations.ts';
import { statementsByShape } from '../../engine/records/projected-columns.ts';
import { limitRecords, transactionReservation } from '../../engine/records/record-limits.ts';
import { statementName } from '../../engine/records/statements.ts';
import { retryingDeadlocks } from '../../engine/records/transactions.ts';
import { unknownField } from '../../engine/records/unknown-names.ts';
import { createYield } from '../../engine/records/yield.ts';
import { sourcesWith } from '../support/sources.ts';

const deadlock = Object.assign(new Error('deadlock detected'), { code: '40P01' });

test('work is attempted up to four times if it deadlocks, and once if it fails for another reason', async () => {
  for (const [cause, expected] of [
    [deadlock, 4],
    [errors.internal(deadlock), 4],
    [Object.assign(new Error('duplicate key'), { code: '23505' }), 1],
    [errors.notFound(), 1],
  ] as const) {
    let attempts = 0;
    const work = retryingDeadlocks(async () => {
      if (++attempts > 10) throw new Error('attempted without end');
      throw cause;
    });
    await assert.rejects(work, cause);
    assert.equal(attempts, expected, String(cause));
  }
  let attempts = 0;
  const work = retryingDeadlocks(async () => {
    if (++attempts < 4) throw deadlock;
    return 'done';
  });
  assert.equal(await work, 'done');
});

test('a transaction reserves only the records for which it has no capacity yet, and releases all reservations', () => {
  const database = {} as Database;
  const reserved: number[] = [];
  let released = 0;
  limitRecords(database, {
    reserve: () => undefined,
    reserveInTransaction: (organization, count) => {
      assert.equal(organization, '7');
      reserved.push(count);
      return () => {
        released += count;
      };
    },
  });
  const { reserve, release } = transactionReservation(database, '7', 3);
  for (const count of [1, 0, 1, 3, 2]) reserve(count);
  assert.deepEqual(reserved, [2, 2], 'the first three records have capacity');
  release();
  assert.equal(released, 4);
});

test('long work pauses after some time, and then continues', async () => {
  const pause = createYield();
  const busy = () => {
    const end = performance.now() + 20;
    while (performance.now() < end);
  };
  busy();
  assert.ok(pause() instanceof Promise);
  // On a busy machine, the time until the next call can be as long as the work.
  let continues = false;
  for (let attempt = 0; attempt < 1000 && !continues; attempt++) {
    await pause();
    continues = pause() === undefined;
  }
  assert.ok(continues);
});

test('suggestions are made for the first five unknown names', () => {
  const issueOf = unknownField(['email']);
  assert.deepEqual(
    [0, 4, 5].map((index) => issueOf('emial', index).hint),
    ['Did you mean "email"?', 'Did you mean "email"?', undefined],
  );
});

/** Returns the numbers and records of lines, or the errors of invalid ones. */
async function read(lines: LineReader): Promise<readonly (readonly [number, unknown])[]> {
  const found: (readonly [number, unknown])[] = [];
  for await (const chunk of lines)
    for (const { number, record } of chunk)
      found.push([number, record instanceof HttpError ? record.code : record]);
  return found;
}
async function* inChunks(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let start = 0; start < bytes.length; start += size) yield bytes.subarray(start, start + size);
}
const column = (name: string, more: object = {}) =>
  ({ name, type: fieldTypes.string, readOnly: false, ...more }) as Field;

test('lines are read once, wherever the chunks of a body end', async () => {
  const numbers = Array.from({ length: 450 }, (_, index) => index + 1);
  for (const size of [50, 1_000_000]) {
    const json = numbers.map((number) => `{"n":${number}}\n`).join('');
    assert.deepEqual(
      await read(ndjsonLines(inChunks(json, size))),
      numbers.map((n) => [n, { n }]),
    );
    const csv = `n\r\n${numbers.map((number) => `${number}\r\n`).join('')}`;
    assert.deepEqual(
      await read(csvLines(inChunks(csv, size), { fields: [column('n')], strict: false })),
      numbers.map((n) => [n + 1, { n: String(n) }]),
    );
  }
});

test('each line has its own limit of a mebibyte', async () => {
  const limit = 1024 * 1024;
  const line = (length: number) => `{"a":"${'x'.repeat(length - 8)}"}`;
  const body = [line(limit), line(limit), line(limit + 1), line(limit - 1), '{"a":"y"}'].join('\n');
  const found = await read(ndjsonLines(inChunks(body, 300_000)));
  assert.deepEqual(
    found.map(([number, record]) => [number, typeof record]),
    [
      [1, 'object'],
      [2, 'object'],
      [3, 'string'],
      [4, 'object'],
      [5, 'object'],
    ],
  );
  assert.equal(found[2]?.[1], 'line_too_long');
});

test('a CSV header names the columns of fields and custom fields', async () => {
  const custom = (key: string) => column(`custom.${key}`, { custom: { resource: 'leads', key } });
  const fields = [column('a'), custom('x'), custom('y')];
  const found = await read(csvLines(inChunks('a,custom.x,custom.y\n1,2,3\n', 100), { fields, strict: true }));
  assert.deepEqual(found, [[2, { a: '1', custom: { x: '2', y: '3' } }]]);
  const missing = read(
    csvLines(inChunks('a\n1\n', 100), {
      ...{ fields, strict: false },
      columns: new Map([['c'.repeat(1000), 'a']]),
    }),
  );
  await assert.rejects(missing, (cause: unknown) => {
    assert.ok(cause instanceof HttpError);
    assert.deepEqual(
      cause.extra.fields?.map(({ field }) => field),
      [`column[${'c'.repeat(93)}…`],
    );
    return true;
  });
});

test('the JSON of a job is exact, and contains null for what does not exist', () => {
  const job = {
    ...{
      id: '9007199254740993',
      resource: 'leads',
      action: 'sweep',
      recordId: null,
      state: 'queued' as const,
    },
    ...{ progress: null, result: '', error: '', createdAt: new Date(1), finishedAt: null },
  };
  const queued = jobJson(job);
  assert.equal(idOfJob(queued), job.id);
  assert.equal(
    queued,
    `{"id":9007199254740993,"resource":"leads","action":"sweep","record_id":null,"state":"queued","progress":null,"result":null,"error":null,"created_at":"1970-01-01T00:00:00.001Z","finished_at":null}`,
  );
  const failed = jobJson({
    ...job,
    ...{ recordId: '7', state: 'failed', progress: { done: '1', total: '9007199254740993' } },
    ...{ result: '{"a":1}', error: '{"error":"no"}', finishedAt: new Date(2) },
  });
  assert.ok(
    failed.endsWith(
      `"record_id":7,"state":"failed","progress":{"done":1,"total":9007199254740993},"result":{"a":1},"error":{"error":"no"},"created_at":"1970-01-01T00:00:00.001Z","finished_at":"1970-01-01T00:00:00.002Z"}`,
    ),
    failed,
  );
});

const tickets = {
  file: 'tickets.yaml',
  text: `
singular: ticket
common: all
trash: 1 day
fields:
  number: { type: string, sequence: "T-{000}" }
  code: { type: string, unique: true }
  secret: { type: string, sensitive: true }
  label: { type: boolean, computed: 'code == ""' }
  amount: { type: money, currency: any, nullable: true }
  marks: { type: list, of: string }
children: { notes: { of: ticket_notes, by: ticket_id, writable: true } }
`,
};
const notes = {
  file: 'ticket_notes.yaml',
  text: 'singular: ticket_note\ncommon: all\nfields:\n  ticket_id: { type: reference, to: tickets, nullable: true }\n',
};
const resources = compileResource(checkSources(await sourcesWith(tickets, notes)), '/api', []);
const definitionOf = (name: string) =>
  (resources.find((resource) => resource.name === name) ?? assert.fail(name)).definition;

test('records in the trash keep their numbers, but not their other unique values', () => {
  const conditions = indexes(definitionOf('tickets'))
    .filter(({ kind }) => kind === 'unique')
    .map(({ name, where = '' }) => [name, where.includes('_trashed_at')]);
  assert.deepEqual(conditions, [
    ['tickets_code_unique', true],
    ['tickets_number_unique', false],
  ]);
});

test('bodies that can contain children can be as large as a batch', () => {
  const sizesOf = (name: string) => {
    const definition = definitionOf(name);
    return operationsOf(definition).flatMap((operation) => {
      const { maxBytes } = bodyRequirements(operation, definition) ?? {};
      return maxBytes === undefined ? [] : [`${operation.name} ${maxBytes / 1024}`];
    });
  };
  const batches = ['createBatch 8192', 'patchBatch 8192', 'removeBatch 8192', 'bulkPatch 8'];
  assert.deepEqual(sizesOf('ticket_notes'), ['query 256', ...batches]);
  assert.deepEqual(sizesOf('tickets'), [
    ...['query 256', 'create 8192', 'replace 8192', 'patch 8192'],
    ...batches,
  ]);
});

test('the described defaults of an import are those that apply', () => {
  const {
    definition,
    operations: compiled,
    context,
  } = resources.find(({ name }) => name === 'tickets') ?? assert.fail();
  const described = uploads.import.describe({
    ...{ definition, aRecord: 'a ticket', recordName: 'Ticket', pluralName: 'Tickets' },
    deleteRules: { removal: 'delete', clear: [], restrict: [], cascade: [] } as never,
  });
  const defaults = (described.parameters ?? []).flatMap(({ name, schema }) => {
    const { default: value } = schema as { readonly default?: unknown };
    return value === undefined ? [] : [[String(name), String(value)] as const];
  });
  assert.deepEqual(defaults, [
    ['on_error', 'continue'],
    ['dry_run', 'false'],
    ['delimiter', 'comma'],
  ]);
  const { options } = uploads.import.compile(context, compiled);
  assert.deepEqual(options({}, false), options(Object.fromEntries(defaults), false));
});

test('statements that depend on a request are prepared once, under a name of their own', () => {
  const definition = definitionOf('tickets');
  const names: string[] = [];
  const named = (context: object, prefix = 'list') => {
    const byShape = statementsByShape<never>(
      { definition, view: '', ...context } as OperationContext,
      prefix,
    );
    return (shape: string) =>
      byShape(shape, (name) => {
        names.push(name);
        return { name } as never;
      });
  };
  const list = named({});
  assert.equal(list('a'), list('a'));
  for (const other of [
    named({ view: 'v' }),
    named({ excerpt: 100 }),
    named({ excerpt: 200 }),
    named({ trashed: 'only' }),
    named({ trashed: 'included' }),
    named({}, 'find'),
  ])
    other('a');
  list('b');
  assert.equal(names.length, 8);
  assert.equal(new Set(names).size, 8, names.join());
  const variants: readonly Pick<Partial<OperationContext>, 'view' | 'excerpt' | 'trashed'>[] = [
    ...[{}, { view: 'v' }, { excerpt: 100 }],
    ...[{ trashed: 'only' as const }, { trashed: 'included' as const }],
  ];
  const fixed = variants.map((variant) => statementName({ definition, view: '', ...variant }, 'read'));
  assert.equal(new Set(fixed).size, 5, fixed.join());
});

test('filters by values that the change log does not contain cannot be evaluated on earlier states', () => {
  const { context, definition } = resources.find(({ name }) => name === 'tickets') ?? assert.fail();
  const fieldsOf = (...names: readonly string[]) =>
    names.map((name) => definition.fields.find((field) => field.name === name) ?? assert.fail(name));
  const { unsupported } = matchingStates(context);
  const [code, secret, label, amount, marks] = fieldsOf('code', 'secret', 'label', 'amount', 'marks');
  const filters = [code, secret, label, amount, marks, column('hidden')].map((field) => ({
    ...{ field, operator: 'eq', values: ['x'] },
  }));
  assert.deepEqual(
    unsupported({ filters } as unknown as ParsedQuery).map(({ name }) => name),
    ['secret', 'label', 'amount', 'marks', 'hidden'],
  );
});

test('of the fields of a locked record, only writable ones with transitions can change', () => {
  const transitions = { initial: [], next: new Map() };
  const fields = [
    column('state', { transitions }),
    column('computed_state', { transitions, readOnly: true }),
    column('former_state', { transitions, aliasOf: column('state') }),
    column('name'),
  ];
  assert.deepEqual(
    changeableFields({ fields }).map(({ name }) => name),
    ['state'],
  );
});

test('descriptions say whether a removed record is moved to the trash, and for how long', () => {
  const describedBy = (name: string, operation: 'merge' | 'remove') => {
    const definition = definitionOf(name);
    const { summary, success } = operations[operation].describe({
      ...{ definition, aRecord: 'a record', recordName: 'Record', pluralName: 'Records' },
      deleteRules: { cascade: [] } as never,
    });
    return `${summary}: ${success.description}`;
  };
  assert.match(describedBy('tickets', 'merge'), /which was moved to the trash\.$/);
  assert.match(describedBy('ticket_notes', 'merge'), /which was deleted\.$/);
  assert.match(describedBy('tickets', 'remove'), /^Move a record to the trash: .* restored for 1 day\. /);
  assert.match(describedBy('ticket_notes', 'remove'), /^Delete a record: The record was deleted\. /);
});
