// Every statement that the compiler can make is bound to one organization, and nothing of a request is in its text.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compile, type Prepared, pageSize, type Resource } from '../../engine/compile/index.ts';
import { columnsOf } from '../../engine/compile/sql.ts';
import { checkSources, type Field } from '../../engine/definition/index.ts';
import {
  createPlan,
  createStatement,
  deletePlan,
  deleteStatement,
  listPlan,
  listStatement,
  readPlan,
  readStatement,
  replacePlan,
  replaceStatement,
} from '../../engine/request/index.ts';
import { everyType } from '../support/every-type.ts';
import { sourcesWith } from '../support/instance.ts';

const hostile = {
  file: 'hostile.yaml',
  text: `
singular: hostile
description: 'x"; drop table "leads"; --'
fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  a: { type: string, default: '"; delete from "leads"; --', enum: ["'; select 1; --"], description: "'" }
  parent_id: { type: reference, to: hostile, nullable: true }
  parent_a: { type: joined, through: parent_id, show: [a] }
filters: [a]
`,
};
const definitions = checkSources(await sourcesWith(...everyType, hostile));
const [silent, noting] = [false, true].map((noted) => compile(definitions, '/api', noted)) as [
  readonly Resource[],
  readonly Resource[],
];
const resources = [...silent, ...noting];
const noteColumns = [
  'crm_activity',
  'organization_id',
  'actor_kind',
  'actor_id',
  'action',
  'object',
  'object_id',
  'request_id',
];
const tables = new Set(resources.map(({ name }) => name));

/** Every subset of a list, each member once or as "any of them". The list is kept short: 3^n. */
function subsets(fields: readonly Field[]): { field: Field; many: boolean }[][] {
  const [first, ...rest] = fields;
  if (first === undefined) return [[]];
  return subsets(rest).flatMap((tail) => [
    tail,
    [{ field: first, many: false }, ...tail],
    [{ field: first, many: true }, ...tail],
  ]);
}

/** Every list that can be asked for. Where there are many filters, each alone and all together. */
function* lists({ definition, statements, sortable }: Resource): Generator<Prepared> {
  const { sort, filters } = definition;
  const some =
    filters.length <= 3
      ? subsets(filters)
      : [
          ...filters.flatMap((field) => subsets([field])),
          ...[false, true].map((many) => filters.map((field) => ({ field, many }))),
        ];
  for (const by of sortable.size === 0 ? [sort.by] : sortable.values()) {
    for (const direction of ['asc', 'desc'] as const) {
      for (const depth of ['first', 'shallow', 'deep'] as const) {
        for (const chosen of some) yield statements.list({ sort: by, direction, depth, filters: chosen });
      }
    }
  }
}

function* all(resource: Resource): Generator<Prepared> {
  const { read, create, replace, delete: remove, missingReferences } = resource.statements;
  yield* [read, create, replace, remove, ...(missingReferences ? [missingReferences] : [])];
  yield* lists(resource);
}

/** `"table" alias`, `"table" "alias"` or `"table"` after a word that reads or writes rows. */
const mention =
  /\b(from|join|update|insert into|delete from)\s+"(\w+)"(?:\s+(?!where\b|on\b|set\b|values\b)("\w+"|\w+))?/g;

/** What of a statement is not bound to the organization of its first parameter. */
function unbound({ text }: Prepared): string[] {
  const wrong: string[] = [];
  const needed = new Map<string, number>();
  for (const [whole, verb, name = '', alias] of text.matchAll(mention)) {
    if (name === 'crm_activity' && verb === 'insert into') {
      // The activity takes the organization from the row just written.
      const taken =
        /"crm_activity" \("organization_id", [^()]*\) select "organization_id", .* from _written\)/;
      if (!taken.test(text)) wrong.push(`${whole}: notes in another organization`);
      continue;
    }
    if (!tables.has(name)) wrong.push(`${whole}: no table of a definition`);
    if (verb === 'insert into') {
      const [, columns = '', values = ''] = /\(([^()]*)\) values \((.*)\) returning/.exec(text) ?? [];
      const position = columns.split(', ').indexOf('"organization_id"');
      if (values.split(', ')[position] !== '$1::bigint') wrong.push(`${whole}: writes another organization`);
    } else {
      const column = `${alias === undefined ? '' : `${alias}.`}"organization_id"`;
      needed.set(column, (needed.get(column) ?? 0) + 1);
    }
  }
  for (const [column, times] of needed) {
    // A join may be bound by the row that it is joined to, which is bound itself.
    const bound =
      text.split(`${column} = $1::bigint`).length + text.split(`${column} = t."organization_id"`).length - 2;
    if (bound < times) wrong.push(`${column} is bound ${bound} times of ${times}`);
  }
  if (/ or /.test(text)) wrong.push('a condition that another one may stand in for');
  if (!text.includes('$1::bigint')) wrong.push('no organization at all');
  return wrong;
}

describe('the check sees what is not bound', () => {
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
      'with _written as (delete from "leads" t where t."organization_id" = $1::bigint returning "id"), _noted as (insert into "crm_activity" ("organization_id", "object") select $2::bigint, \'leads\' from _written) select 1',
      'an activity elsewhere',
    ],
    ['select 1 from "crm_keys" t where t."organization_id" = $1::bigint', 'a table of the platform'],
  ] as const) {
    test(what, () => assert.notDeepEqual(unbound({ name: '', text }), []));
  }
});

for (const resource of resources) {
  describe(`the statements of ${resource.name}${resource.noted ? ', noting activity' : ''}`, () => {
    const prepared = [...all(resource)];
    const { fields } = resource.definition;

    test('each is bound to the organization of its first parameter', () => {
      assert.ok(prepared.length >= 10);
      for (const one of prepared) assert.deepEqual(unbound(one), [], one.text);
    });

    test('identifiers come from the definitions, literals from the compiler', () => {
      const known = new Set([
        ...tables,
        ...noteColumns,
        ...definitions.flatMap((definition) => definition.fields.map(({ name }) => name)),
        ...definitions.flatMap((definition) => definition.fields.flatMap(columnsOf).map(({ name }) => name)),
        ...fields.map(({ name }) => `via_${name}`),
      ]);
      const literals = new Set([
        ...['create', 'update', 'delete', resource.name].map((word) => `'${word}'`),
        "''",
        "' '",
        "','",
        "'T'",
        "'Z'",
        "'UTC'",
        "'+00:00'",
      ]);
      for (const { text } of prepared) {
        for (const [, name = ''] of text.matchAll(/"([^"]*)"/g))
          assert.ok(known.has(name), `${name} in ${text}`);
        for (const [literal] of text.matchAll(/'[^']*'/g))
          assert.ok(literals.has(literal), `${literal} in ${text}`);
        assert.doesNotMatch(text, /;|--|\/\*|\$\$/);
      }
    });

    test('each has a name of its own, short enough for the server to keep', () => {
      const texts = new Map<string, string>();
      for (const { name, text } of prepared) {
        assert.equal(texts.get(name) ?? text, text, `${name} stands for two texts`);
        assert.ok(Buffer.byteLength(name) <= 63, name);
        texts.set(name, text);
      }
    });

    test('lists end in the id, in the direction of the order, and never show more than a page', () => {
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

    test('what a write takes is what it may change', () => {
      const replaced = /update "\w+" t set (.*) where /.exec(resource.statements.replace.text)?.[1] ?? '';
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
        for (const { name } of columnsOf(field))
          assert.ok(replaced.includes(`"${name}" = `), `PUT leaves ${name}`);
      }
    });

    test('every placeholder has a value and every value a placeholder', () => {
      const principal = { kind: 'key', actor: '3', organization: '1', user: null, grants: {} } as const;
      const input = { principal, requestId: 'r', query: {}, strict: false };
      const body = Object.fromEntries(
        fields.filter((field) => field.required).map((field) => [field.name, field.type.examples[0]]),
      );
      const filtered = Object.fromEntries(
        resource.definition.filters.map(({ name, type }) => [name, String(type.examples.find(Boolean) ?? 1)]),
      );
      const requests = [
        readStatement(readPlan(resource, '1', input)),
        deleteStatement(deletePlan(resource, '1', input)),
        createStatement(createPlan(resource, body, input)),
        replaceStatement(replacePlan(resource, '1', body, input)),
        ...['1', '2', '6'].flatMap((page) =>
          [{}, filtered].map((filters) =>
            listStatement(listPlan(resource, { ...input, query: { ...filters, page } })),
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
