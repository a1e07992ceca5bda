// Every statement that the compiler can generate is restricted to one organization, and its text does not
// contain anything from a request.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileResource, type Resource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check.ts';
import { changeLogTables } from '../../engine/effects/change-log.ts';
import { effects } from '../../engine/effects/effects.ts';
import { fieldColumns } from '../../engine/fields/field.ts';
import { operatorOf } from '../../engine/query/operators.ts';
import { pageSize } from '../../engine/query/page.ts';
import type { ParsedQuery, RequestedProjection } from '../../engine/query/parts.ts';
import { idempotencyTables } from '../../engine/records/idempotency.ts';
import { versionColumn } from '../../engine/sql/names.ts';
import type { Statement } from '../../engine/sql/statement.ts';
import { everyType } from '../support/every-type.ts';
import { sourcesWith } from '../support/sources.ts';

const hostile = {
  file: 'hostile.yaml',
  text: `
singular: hostile
description: 'x"; drop table "leads"; --'
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  a: { type: string, default: '"; delete from "leads"; --', enum: ['"; delete from "leads"; --', "'; select 1; --"], description: "'" }
  parent_id: { type: reference, to: hostile, nullable: true }
  parent_a: { type: joined, through: parent_id, show: [a] }
filters: [a]
`,
};
const definitions = checkSources(await sourcesWith(...everyType, hostile));
const resources = [[], [effects.audit]].flatMap((chosen) => compileResource(definitions, '/api', chosen));
const stored = [...idempotencyTables, ...changeLogTables].map(({ meta }) => meta);
const tables = new Set([...resources, ...stored].map(({ name }) => String(name)));

type Conditions = ParsedQuery['filters'];

/**
 * Returns every subset of a resource's filters, with one or several values per filter. There are 3^n subsets
 * of n filters.
 */
function subsets(filters: Resource['definition']['filters']): Conditions[] {
  const [first, ...rest] = filters;
  if (first === undefined) return [[]];
  return subsets(rest).flatMap((tail) => [
    tail,
    ...first.operators.flatMap((operator) =>
      (operatorOf(operator).words?.map((word) => [word]) ?? [['1'], ['1', '2']]).map((values) => [
        { field: first.field, operator, values },
        ...tail,
      ]),
    ),
  ]);
}

const principal = { kind: 'key', actor: '3', name: null, organization: '1', user: null, grants: {} } as const;
const plan = { organization: '1', caller: { principal, requestId: 'r' } };

const places = ['1', null].map((key) => ({ page: '2', key, id: '1', text: '', signature: '' }));

const whole: RequestedProjection = { selection: undefined, expansion: [] };

/** Returns every projection of a record: each field, each reference, and all of them. */
const shapes = ({ selection, expansion }: Resource['definition']): RequestedProjection[] => {
  const id = selection.filter(({ name }) => name === 'id');
  return [
    ...selection.map((field) => ({ selection: [...new Set([...id, field])], expansion: [] })),
    ...expansion.map((reference) => ({ selection: undefined, expansion: [reference] })),
    ...(expansion.length > 0
      ? [
          { selection: undefined, expansion },
          { selection: id, expansion },
        ]
      : []),
  ];
};

/**
 * Yields every possible list. If there are many filters, yields each filter alone and all of them together.
 */
function* lists({ definition, operations }: Resource): Generator<Statement> {
  const { sort, filters } = definition;
  const some =
    filters.length <= 3
      ? subsets(filters)
      : [
          ...filters.flatMap((filter) => subsets([filter])),
          ...[['1'], ['1', '2']].map((values) =>
            filters
              .filter(({ operators }) => operators.includes('eq'))
              .map(({ field }) => ({ field, operator: 'eq' as const, values })),
          ),
        ];
  for (const field of sort.choices.size === 0 ? [sort.field] : sort.choices.values()) {
    for (const direction of ['asc', 'desc'] as const) {
      for (const [page, depth] of [
        ['1', 'first'],
        ['2', 'shallow'],
        ['6', 'deep'],
      ] as const) {
        for (const [words, conditions, after, counting, shown] of [
          ...some.map((each) => [[], each, undefined, undefined, whole] as const),
          ...(definition.search.length > 0 ? [[['a', 'b'], [], undefined, undefined, whole] as const] : []),
          ...(depth === 'first' ? places.map((place) => [[], [], place, undefined, whole] as const) : []),
          ...(['exact', 'estimated'] as const).map(
            (each) => [[], some.at(-1) ?? [], undefined, each, whole] as const,
          ),
          ...(field === sort.field ? shapes(definition) : []).flatMap((each) =>
            ([undefined, 'exact'] as const).map((counting) => [[], [], undefined, counting, each] as const),
          ),
        ]) {
          const asked = {
            page: { page, offset: (Number(page) - 1) * pageSize, depth },
            sort: { field, direction, ...(after && { after }) },
            filters: conditions,
            search: words,
            ...shown,
          };
          const statement = operations.list.statement({
            ...plan,
            resource: definition.name,
            query: {},
            parsedQuery: asked,
            counting,
            signing: undefined,
          });
          assert.ok(statement);
          yield statement;
        }
      }
    }
  }
}

function* all(resource: Resource): Generator<Statement> {
  const { read, create, replace, patch, remove, createBatch, patchBatch, removeBatch } = resource.operations;
  const body = {};
  const id = '1';
  const conditions = { match: ['1'], noneMatch: ['2'] };
  const batch = {
    ...plan,
    columns: [],
    skipped: [],
    stops: true,
    size: 1,
    location: String,
    failures: new Map(),
    columnsOf: async () => [],
  };
  const matches = [
    '',
    ...resource.definition.uniques.map((unique) => unique.map(({ name }) => name).join(' ')),
  ];
  for (const statement of [
    read.statement({ ...plan, id, conditions: undefined, projection: undefined }),
    ...shapes(resource.definition).map((shown) =>
      read.statement({ ...plan, id, conditions: undefined, projection: shown }),
    ),
    create.statement({ ...plan, body, idempotency: undefined }),
    create.statement({ ...plan, body, idempotency: { key: 'k', bodyHash: 'h' } }),
    ...[undefined, conditions].flatMap((conditions) => [
      replace.statement({ ...plan, id, body, conditions }),
      patch.statement({ ...plan, id, body, fieldNames: [], conditions }),
      remove.statement({ ...plan, id, conditions }),
    ]),
    ...matches.flatMap((match) =>
      [undefined, { key: 'k', bodyHash: 'h' }].flatMap((idempotency) => [
        createBatch.statement({ ...batch, match, idempotency }),
        createBatch.rejection?.statement({ ...batch, match, idempotency }),
      ]),
    ),
    patchBatch.statement(batch),
    patchBatch.rejection?.statement(batch),
    removeBatch.statement(batch),
    create.rejection?.statement({ ...plan, body, idempotency: undefined }),
    replace.rejection?.statement({ ...plan, id, body, conditions: undefined }),
    patch.rejection?.statement({ ...plan, id, body, fieldNames: [], conditions: undefined }),
  ]) {
    // The database cannot reject some writes, so these do not have a rejection statement.
    if (statement === undefined) continue;
    yield statement;
  }
  yield* lists(resource);
}

/** Matches `"table" alias`, `"table" "alias"` or `"table"` after a keyword that reads or writes rows. */
const mention =
  /\b(from|join|update|insert into|delete from)\s+"(\w+)"(?:\s+(?!where\b|on\b|set\b|values\b)("\w+"|\w+))?/g;

/**
 * Returns a batch statement rewritten for a single record, with parameters instead of the input's columns.
 * Written rows are joined to their input by organization and ID.
 */
function forMany({ many, lane }: Statement): Pick<Statement, 'name' | 'text' | 'lane'>[] {
  if (many === undefined) return [];
  const start =
    /^with _in as materialized \(select (?:nextval\(pg_get_serial_sequence\('"\w+"', 'id'\)\) as "_id", )?_i\.\* from unnest\((?:\$\d+::text\[\](?:, )?)+\) with ordinality as _i\((?:"_\d+", )+"_number"\)\)/;
  assert.match(many.text, start);
  const text = many.text
    .replace(start, '')
    .replace(/^, /, 'with ')
    .replace(/^ /, '')
    .replaceAll(/_in\."_(\d+)"/g, '$$$1')
    .replaceAll(
      / join _in on (?:t|_w)\."organization_id" = \$1::bigint and (?:t|_w)\."(?:id|_cause)" = (?:\$2::bigint|_in\."_id")/g,
      '',
    )
    .replace(' from _in returning', ' returning')
    .replaceAll('."organization_id" = _written."organization_id"', '."organization_id" = $1::bigint')
    .replace(
      /insert into "(\w+)" \("id", (.*?)\) select "_id", (.*?) returning/,
      'insert into "$1" ($2) values ($3) returning',
    )
    .replace(/ (?:from|using) _in where /, ' where ')
    .replace('_in."_number"::text, ', '')
    .replace(/^select _p\.\* from _in cross join lateral \((.*)\) _p$/s, '$1');
  return [{ name: many.name, text, lane }];
}

/** Returns the parts of a statement that are not restricted to the organization in its first parameter. */
function unbound({ text }: Pick<Statement, 'text'>): string[] {
  const wrong: string[] = [];
  const needed = new Map<string, number>();
  for (const [whole, verb, name = '', alias] of text.matchAll(mention)) {
    if (name === 'crm_ledger' && verb === 'insert into') {
      // The change log takes the organization from the row just written.
      const taken =
        /"crm_ledger" \("organization_id", [^()]*\) select _w\."organization_id", .* from _(?:written|shown|changed|unlinked_\d+) _w\)/;
      if (!taken.test(text)) wrong.push(`${whole}: records in another organization`);
      continue;
    }
    if (!tables.has(name)) wrong.push(`${whole}: no table of a definition`);
    if (verb === 'insert into') {
      const written = new RegExp(`insert into "${name}" \\(([^()]*)\\) (?:values \\(|select )(.*)`);
      const [, columns = '', values = ''] = written.exec(text) ?? [];
      const position = columns.split(', ').indexOf('"organization_id"');
      if (values.split(', ')[position] !== '$1::bigint') wrong.push(`${whole}: writes another organization`);
    } else {
      const column = `${alias === undefined ? '' : `${alias}.`}"organization_id"`;
      needed.set(column, (needed.get(column) ?? 0) + 1);
    }
  }
  for (const [column, times] of needed) {
    // A join can be restricted by the organization of the joined row, which is also restricted.
    const bound = ['$1::bigint', 't."organization_id"', '_w."organization_id"'].reduce(
      (sum, one) => sum + text.split(`${column} = ${one}`).length - 1,
      0,
    );
    if (bound < times) wrong.push(`${column} is bound ${bound} times of ${times}`);
  }
  if (/ or /.test(text)) wrong.push('a condition that another one may stand in for');
  if (!text.includes('$1::bigint')) wrong.push('no organization at all');
  return wrong;
}

const replaceText = ({ operations }: Resource) =>
  operations.replace.statement({ ...plan, id: '1', body: {}, conditions: undefined })?.text ?? '';

describe('the check detects unrestricted statements', () => {
  for (const [text, what] of [
    ['select 1 from "leads" t where t."id" = $2::bigint', 'no condition'],
    [
      'select 1 from "leads" t where t."organization_id" = $2::bigint and t."id" = $1::bigint',
      'another parameter',
    ],
    [
      'select 1 from "cases" t left join "accounts" "a" on "a"."id" = t."account_id" where t."organization_id" = $1::bigint',
      'a join by id alone',
    ],
    [
      'select 1 from (select 1 from "leads" t where t."organization_id" = $1::bigint) k join "leads" t on t."id" = k."id"',
      'one of two mentions',
    ],
    [
      'with _w as (insert into "leads" ("organization_id", "a") values ($2::bigint, $1::bigint) returning *) select 1',
      'an insert elsewhere',
    ],
    ['update "leads" t set "a" = $2 where t."id" = $1::bigint', 'an update by id alone'],
    ['delete from "leads" where "id" = $1::bigint', 'a delete by id alone'],
    ['select 1 from "leads" t where t."organization_id" = $1::bigint or t."id" = $2', 'either condition'],
    [
      'with _written as (delete from "leads" t where t."organization_id" = $1::bigint returning "id"), _ledger as (insert into "crm_ledger" ("organization_id", "object") select $2::bigint, \'leads\' from _written _w) select 1',
      'a ledger elsewhere',
    ],
    ['select 1 from "crm_keys" t where t."organization_id" = $1::bigint', 'a table of the platform'],
  ] as const) {
    test(what, () => assert.notDeepEqual(unbound({ text }), []));
  }
});

for (const resource of resources) {
  describe(`the statements of ${resource.name}${resource.context.effects.length > 0 ? ', with the change log' : ''}`, () => {
    const prepared = [...all(resource)].flatMap((each) => [each, ...forMany(each)]);
    const { fields } = resource.definition;

    test('are restricted to the organization of the first parameter', () => {
      assert.ok(prepared.length >= 10);
      for (const one of prepared) assert.deepEqual(unbound(one), [], one.text);
    });

    test('take identifiers from the definitions and literals from the compiler', () => {
      const known = new Set([
        ...tables,
        ...stored.flatMap(({ properties }) => Object.keys(properties)),
        ...[
          'record',
          'record_id',
          'tag',
          'versions',
          '_versions',
          '_key',
          '_cause',
          '_json',
          'expanded',
          '_0',
          '_1',
          '_2',
          'id',
          'free',
          'kind',
        ],
        ...definitions.flatMap((definition) => definition.fields.map(({ name }) => name)),
        ...definitions.flatMap((definition) =>
          definition.fields.flatMap(fieldColumns).map(({ name }) => name),
        ),
        ...fields.map(({ name }) => `via_${name}`),
        versionColumn,
        // Collations.
        'C',
        'default',
      ]);
      const literals = new Set([
        ...fields.filter(({ readOnly }) => !readOnly).map(({ name }) => `'${name}'`),
        `'-${resource.context.projection.mark}'`,
        ...[
          'create',
          'update',
          'delete',
          'written',
          'unmet',
          'stored',
          'running',
          resource.name,
          ...resource.context.referrers.map((referrer) => referrer.resource),
        ].map((word) => `'${word}'`),
        "''",
        "' '",
        "','",
        "'.'",
        "'T'",
        "'Z'",
        "'UTC'",
        "'+00:00'",
        ...['1', '0', '{"results":[', ']}', '}', '{"status":200,"id":', '{"status":201,"id":'].map(
          (text) => `'${text}'`,
        ),
        `'${resource.name}/batch'`,
        // Literals in the lookup by digits.
        ...["'\\D'", "'g'", "'^00'"],
      ]);
      for (const { text } of prepared) {
        for (const [, name = ''] of text.replace(/'[^']*'/g, "''").matchAll(/"([^"]*)"/g))
          assert.ok(known.has(name), `${name} in ${text}`);
        for (const [literal] of text.matchAll(/'[^']*'/g))
          assert.ok(literals.has(literal), `${literal} in ${text}`);
        assert.doesNotMatch(text, /;|--|\/\*|\$\$/);
      }
    });

    test("have unique names within PostgreSQL's length limit", () => {
      const texts = new Map<string, string>();
      // Batch statements do not have a name and are planned each time.
      for (const { name, text } of prepared.filter(({ lane }) => lane !== 'batch')) {
        assert.equal(texts.get(name) ?? text, text, `${name} stands for two texts`);
        assert.ok(Buffer.byteLength(name) <= 63, name);
        texts.set(name, text);
      }
    });

    test('order lists by ID last, in one direction, and return at most a page', () => {
      for (const { text } of lists(resource)) {
        const orders = [...text.matchAll(/order by (.*?) limit (\d+)/g)];
        assert.ok(orders.length >= 1);
        for (const [, keys = '', limit] of orders) {
          assert.match(keys, /^.* (asc|desc)$/);
          const directions = new Set(
            [...keys.matchAll(/ (asc|desc)(?=,|$)/g)].map(([, direction]) => direction),
          );
          assert.equal(directions.size, 1);
          assert.match(keys, /t\."id" (asc|desc)$/);
          assert.equal(Number(limit), pageSize);
        }
      }
    });

    test('write exactly the writable columns', () => {
      const replaced = /update "\w+" t set (.*) where /.exec(replaceText(resource))?.[1] ?? '';
      const kept = fields.filter(
        (field) => field.readOnly && field.set !== 'updated' && field.set !== 'editor',
      );
      for (const { name } of kept.filter((field) => field.type.columns !== undefined)) {
        assert.ok(
          !replaced.startsWith(`"${name}" =`) && !replaced.includes(`, "${name}" =`),
          `PUT writes ${name}`,
        );
      }
      for (const field of fields.filter((one) => !one.readOnly)) {
        for (const { name } of fieldColumns(field))
          assert.ok(replaced.includes(`"${name}" = `), `PUT does not write ${name}`);
      }
    });

    test('have a value for every placeholder and a placeholder for every value', () => {
      const { list, create, read, replace, patch, remove } = resource.operations;
      const body = Object.fromEntries(
        fields.filter((field) => field.required).map((field) => [field.name, field.type.examples[0]]),
      );
      const filtered = Object.fromEntries(
        resource.definition.filters.map(({ field: { name, type } }) => [
          name,
          String(type.examples.find(Boolean) ?? 1),
        ]),
      );
      const input = { caller: plan.caller, id: '1', body };
      const requests = [
        read.statement(read.plan(input)),
        remove.statement(remove.plan(input)),
        create.statement(create.plan(input)),
        replace.statement(replace.plan(input)),
        patch.statement(patch.plan(input)),
        ...['1', '2', '6'].flatMap((page) =>
          [{}, filtered].map((filters) =>
            list.statement(list.plan({ ...input, query: { ...filters, page } })),
          ),
        ),
      ];
      for (const statement of requests) {
        assert.ok(statement);
        const used = new Set([...statement.text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number)));
        const given = statement.values.map((_, index) => index + 1);
        assert.deepEqual(
          [...used].sort((a, b) => a - b),
          given,
          statement.text,
        );
      }
    });
  });
}
