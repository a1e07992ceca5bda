// Every statement that the compiler can generate is restricted to one organization, and its text does not
// contain anything from a request.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileResource, type Resource, type ResourceView } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { effects, effectTables } from '../../engine/effects/effects.ts';
import { linksOf } from '../../engine/fields/alternatives.ts';
import { fieldColumns } from '../../engine/fields/field.ts';
import { operatorOf } from '../../engine/query/operators.ts';
import { pageSize } from '../../engine/query/page.ts';
import type { ParsedQuery, RequestedProjection } from '../../engine/query/parts.ts';
import { bulkStatements } from '../../engine/records/bulk.ts';
import { compileChildLists } from '../../engine/records/child-lists.ts';
import { compileChildrenLock } from '../../engine/records/find-lock.ts';
import { formatNames } from '../../engine/records/formats.ts';
import { idempotencyTables } from '../../engine/records/idempotency.ts';
import {
  compileGrants,
  compilePurge,
  compilePurgeBatch,
  customFieldTables,
  groupsOf,
  measuresOf,
  mergeTables,
  noGrants,
} from '../../engine/records/index.ts';
import { compileMergeSteps } from '../../engine/records/merge.ts';
import { sequenceTables } from '../../engine/records/sequence-numbers.ts';
import { compileUnmergeSteps } from '../../engine/records/unmerge.ts';
import { trashedColumn, versionColumn } from '../../engine/sql/names.ts';
import type { Statement } from '../../engine/sql/statement.ts';
import { otherStatements, readStatementFiles, statementFiles } from '../support/compiled-statements.ts';
import { everyType } from '../support/every-type.ts';
import { jobs } from '../support/limited.ts';
import { memos } from '../support/memos.ts';
import { quotes } from '../support/quotes.ts';
import { related } from '../support/related.ts';
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
  number: { type: string, sequence: "N-{0}" }
  yearly: { type: string, sequence: "{year}/{000}" }
  friend_ids: { type: references, to: hostile }
  enemy_ids: { type: references, to: hostile, on_delete: restrict }
filters: [a, { field: friend_ids, operators: [eq, ne, any, all] }]
aggregates: { group_by: [a, parent_id] }
`,
};
const definitions = checkSources(await sourcesWith(...everyType, ...related, ...memos, ...quotes, hostile));
const resources = [[], Object.values(effects)].flatMap((chosen) =>
  compileResource(definitions, '/api', chosen),
);
const stored = [
  ...[...idempotencyTables, ...effectTables, ...sequenceTables],
  ...[...customFieldTables, ...mergeTables],
].map(({ meta }) => meta);
const links = resources.flatMap(({ linkEntities }) => linkEntities).map(({ meta }) => meta);
const tables = new Set([...resources, ...stored, ...links].map(({ name }) => String(name)));

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

const principal = {
  kind: 'key',
  actor: '3',
  name: null,
  organization: '1',
  user: null,
  grants: noGrants,
} as const;
const plan = { organization: '1', caller: { principal, requestId: 'r' } };

const places = ['1', null].map((key) => ({ page: 2n, keys: [key], id: '1', text: '', signature: '' }));

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
function* lists({ definition, operations }: ResourceView, trashed?: 'only'): Generator<Statement> {
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
        [1n, 'first'],
        [2n, 'shallow'],
        [6n, 'deep'],
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
            view: '',
            ...(trashed && { trashed }),
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

/** Yields aggregates with each group, all measures, and conditions on measures and records. */
function* aggregates({ definition, operations }: ResourceView): Generator<Statement> {
  const groups = groupsOf(definition);
  const measures = measuresOf(definition);
  const filters = definition.filters.flatMap((filter) => subsets([filter]));
  const conditions: readonly Pick<ParsedQuery, 'filters' | 'search'>[] = [
    { filters: [], search: [] },
    ...filters.map((each) => ({ filters: each, search: [] })),
    ...(definition.search.length > 0 ? [{ filters: [], search: ['a', 'b'] }] : []),
  ];
  const having = measures.map((measure) => ({ measure, operator: 'gte' as const, value: '1' }));
  for (const chosen of [[], ...groups.map((group) => [group]), groups.slice(0, 3), groups.slice(-3)])
    for (const parts of conditions) {
      const statement = operations.aggregate?.statement({
        ...plan,
        groups: chosen,
        measures: measures.filter(({ field }) => field?.type.currency === undefined),
        having: parts === conditions[0] ? having : [],
        timeZone: 'UTC',
        parsedQuery: {
          page: { page: 1n, offset: 0, depth: 'first' },
          sort: definition.sort,
          ...parts,
          ...whole,
        },
      });
      if (statement !== undefined) yield statement;
    }
}

/** Yields the statements of bulk changes, with each filter alone. */
function* bulkChanges({ context, definition }: ResourceView): Generator<Statement> {
  const filters = definition.filters
    .flatMap((filter) => subsets([filter]))
    .filter(({ length }) => length === 1);
  for (const action of ['update', 'delete'] as const) {
    const { count, lock } = bulkStatements(context, action);
    for (const parts of [
      ...filters.map((each) => ({ filters: each, search: [] })),
      ...(definition.search.length > 0 ? [{ filters: [], search: ['a', 'b'] }] : []),
    ]) {
      const parsedQuery = {
        page: { page: 1n, offset: 0, depth: 'first' as const },
        sort: definition.sort,
        ...parts,
        ...whole,
      };
      yield count({ ...plan, parsedQuery });
      yield lock({ ...plan, parsedQuery });
    }
  }
}

/** Returns the plan of a batch with one item. @param columns number of columns with a value */
const batchOf = (columns: number) => ({
  ...plan,
  columns: Array.from({ length: columns }, () => ({ elements: '"{1}"', hasValue: true })),
  skipped: [],
  stops: true,
  size: 1,
  location: String,
  failures: new Map(),
  columnsOf: async () => [],
});

function* all(resource: ResourceView): Generator<Statement> {
  const {
    read,
    create,
    replace,
    patch,
    remove,
    restore,
    merge,
    unmerge,
    createBatch,
    patchBatch,
    removeBatch,
  } = resource.operations;
  const hasTrash = resource.definition.trash !== undefined;
  const purge = hasTrash ? compilePurge(resource.context) : undefined;
  const purgeBatch = hasTrash ? compilePurgeBatch(resource.context) : undefined;
  const body = {};
  const id = '1';
  const conditions = { match: ['1'], noneMatch: ['2'] };
  const batch = batchOf(0);
  const pair = { ...plan, id, from: '2', customKeys: [], conditions };
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
      restore?.statement({ ...plan, id, conditions }),
      purge?.statement({ ...plan, id, conditions }),
    ]),
    ...matches.flatMap((match) =>
      [undefined, { key: 'k', bodyHash: 'h' }].flatMap((idempotency) => [
        createBatch.statement({ ...batch, match, idempotency }),
        createBatch.rejection?.statement({ ...batch, match, idempotency }),
      ]),
    ),
    patchBatch.statement(batch),
    patchBatch.rejection?.statement(batch),
    removeBatch.statement({ ...batch, conditions: undefined, rejections: 0 }),
    removeBatch.rejection?.statement({ ...batch, conditions: undefined, rejections: 0 }),
    remove.rejection?.statement({ ...plan, id, conditions }),
    restore?.rejection?.statement({ ...plan, id, conditions }),
    purge?.rejection?.statement({ ...plan, id, conditions }),
    purgeBatch?.statement({ ...batch, conditions: undefined, rejections: 0 }),
    purgeBatch?.rejection?.statement({ ...batch, conditions: undefined, rejections: 0 }),
    create.rejection?.statement({ ...plan, body, idempotency: undefined }),
    replace.rejection?.statement({ ...plan, id, body, conditions: undefined }),
    patch.rejection?.statement({ ...plan, id, body, fieldNames: [], conditions: undefined }),
    merge.statement(pair),
    unmerge.statement(pair),
    ...[compileMergeSteps, compileUnmergeSteps].flatMap((compile) =>
      compile(resource.context).statements.map(({ bind }) => bind(pair)),
    ),
  ]) {
    // The database cannot reject some writes, so these do not have a rejection statement.
    if (statement === undefined) continue;
    yield statement;
  }
  yield* bulkChanges(resource);
  yield* lists(resource);
  yield* aggregates(resource);
  if (hasTrash) yield* lists(resource, 'only');
  yield* exportsOf(resource);
}

/** Yields the statements of exports of all records and of the trash. */
function* exportsOf({ definition, operations: { list } }: ResourceView): Generator<Statement> {
  const { export: exports } = list;
  if (exports === undefined) assert.fail('lists cannot be exported');
  const field = definition.sort.field;
  const query = {
    ...{ page: { page: 1n, offset: 0, depth: 'first' as const }, filters: [], search: [] },
    ...{ sort: { field, direction: 'asc' as const }, ...whole },
  };
  for (const trashed of definition.trash === undefined ? [undefined] : [undefined, 'only' as const]) {
    const exported = {
      ...{ ...plan, resource: definition.name, view: '', query: {}, parsedQuery: query },
      ...{ counting: undefined, signing: undefined, ...(trashed && { trashed }) },
    };
    yield* exports.begin(exported);
    for (const format of formatNames) yield exports.statement(exported, format);
  }
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

/** Returns a statement without the expanded records. */
function withoutExpanded(text: string): string {
  const start = text.indexOf(', (select row_to_json(_e) from (');
  const end = text.lastIndexOf(' as "expanded"');
  return start === -1 ? text : `${text.slice(0, start)}${text.slice(end)}`;
}

/** Returns a statement whose lists of the trash read the table itself. */
const withoutTrashColumn = (text: string): string =>
  text.replaceAll(/\(select \*, "_trashed_at" as "trashed_at" from ("\w+")\)/g, '$1');

/** Returns the parts of a statement that are not restricted to the organization in its first parameter. */
function unbound({ text: complete }: Pick<Statement, 'text'>): string[] {
  const text = withoutTrashColumn(complete);
  const wrong: string[] = [];
  const needed = new Map<string, number>();
  for (const [whole, verb, name = '', alias] of text.matchAll(mention)) {
    if (name === 'crm_ledger' && verb === 'insert into') {
      // The change log takes the organization from the row just written. Exports write an entry before they start.
      const taken =
        /"crm_ledger" \("organization_id", [^()]*\) select _w\."organization_id", .* from _(?:written|removed|moved|shown|changed|unlinked_\d+|deleted_\d+) _w(?: order by _w\."id")?\)/;
      const isExport = /^insert into "crm_ledger" \("organization_id", [^()]*\) values \(\$1::bigint, /.test(
        text,
      );
      if (!taken.test(text) && !isExport) wrong.push(`${whole}: records in another organization`);
      continue;
    }
    if (name === 'crm_notes' && verb === 'delete from') {
      // Notes are deleted with the rows just deleted.
      const deleted =
        /"crm_notes" _n using \(select _w\."organization_id", _w\."id" from _(?:written|removed|deleted_\d+) _w\) _d where _n\."organization_id" = _d\."organization_id" and /;
      if (!deleted.test(text)) wrong.push(`${whole}: notes in another organization`);
      continue;
    }
    if (!tables.has(name)) wrong.push(`${whole}: no table of a definition`);
    const isRecreated = text.includes(`insert into "${name}" select _n.* from "crm_merges" _k `);
    if (verb === 'insert into' && isRecreated) {
      // A record that was merged into another one is created again from its stored row.
      if (!text.includes(`jsonb_build_object('organization_id', $1::bigint)`))
        wrong.push(`${whole}: writes another organization`);
    } else if (verb === 'insert into') {
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
    [
      'with _written as (delete from "leads" t where t."organization_id" = $1::bigint returning "id"), _notes as (delete from "crm_notes" _n using (select _w."organization_id", _w."id" from _written _w) _d where _n."record_id" = _d."id") select 1',
      'notes elsewhere',
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
        ...[...stored, ...links].flatMap(({ properties }) => Object.keys(properties)),
        ...[
          'record',
          'record_id',
          'tag',
          'versions',
          '_versions',
          '_key',
          '_cause',
          '_before',
          'trashed_at',
          '_target',
          '_record',
          '_id',
          '_json',
          'expanded',
          'data',
          'has_more',
          '_parent',
          // Index of an input in a batch form.
          '_number',
          'url',
          '_0',
          '_1',
          '_2',
          'id',
          'free',
          'kind',
          'user_id',
          'name',
          'email',
          'former',
          // The column of an INSERT statement that would be written again.
          'both',
        ],
        ...definitions.flatMap((definition) => definition.fields.map(({ name }) => name)),
        ...definitions.flatMap((definition) =>
          definition.fields.flatMap(fieldColumns).map(({ name }) => name),
        ),
        ...definitions.flatMap((definition) => [
          ...definition.fields.map(({ name }) => `via_${name}`),
          ...definition.expansion.map(({ name }) => name),
        ]),
        versionColumn,
        trashedColumn,
        // Columns and values of aggregates.
        ...[0, 1, 2].flatMap((group) => [0, 1].map((part) => `_g${group}_${part}`)),
        ...measuresOf(resource.definition).map((_, index) => `_m${index}`),
        ...[...groupsOf(resource.definition), ...measuresOf(resource.definition)].map(({ name }) => name),
        // Key of an expanded record whose reference points to one of several resources.
        'resource',
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
          'trash',
          'restore',
          'purge',
          'export',
          'written',
          'unmet',
          'stored',
          'running',
          resource.name,
          ...[...resource.context.referrers.values()].flat().map((referrer) => referrer.resource),
        ].map((word) => `'${word}'`),
        // Paths of complete lists.
        ...definitions.flatMap(({ name, filters }) =>
          filters.flatMap(({ parameters }) =>
            parameters.flatMap((parameter) =>
              ['', ...definitions.map((definition) => `${definition.name}/`)].map(
                (target) => `'/api/${name}?${encodeURIComponent(parameter.name)}=${target}'`,
              ),
            ),
          ),
        ),
        ...definitions.flatMap(({ expansion }) =>
          expansion.flatMap(({ order }) =>
            order === undefined ? [] : [`'&sort=${order.field.name}&dir=${order.direction}'`],
          ),
        ),
        ...definitions.flatMap(({ fields }) =>
          fields.flatMap((field) =>
            (field.alternatives ?? []).flatMap(({ to }) => [
              `'${to}'`,
              `'${to}/'`,
              `'{"resource":"${to}","id":'`,
            ]),
          ),
        ),
        // Names and formats of sequences.
        ...['hostile.number', 'hostile.yearly', 'N-', '/', 'YYYY', '^[0-9]{1,18}$'].map(
          (text) => `'${text}'`,
        ),
        ...[1, 3].map((digits) => `'FM${'9'.repeat(18 - digits)}${'0'.repeat(digits)}'`),
        "'[]'",
        "'{}'",
        "'['",
        "'] '",
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
        // Versions of rollups, an amount of money, and a number in the condition of a rollup.
        ...["'UTF8'", "'hex'", `'{"amount":'`, `',"currency":"'`, "'EUR'", `'"}'`, "'7.5'"],
        ...['day', 'week', 'month', 'quarter', 'year'].map((period) => `'${period}'`),
        // Columns of a merge, the tables whose rows it moves, and the period in which it can be undone.
        ...[...definitions, ...resources.map(({ definition }) => definition)].flatMap((definition) =>
          definition.fields.flatMap(fieldColumns).map(({ name }) => `'${name}'`),
        ),
        ...definitions.flatMap(({ fields }) => fields.flatMap(linksOf)).map(({ name }) => `'${name}'`),
        ...["'crm_notes'", "'true'", "'null'", "'30 days'", "'organization_id'", `'${versionColumn}'`],
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

    test('write and lock only in the lanes of writes, because a client that disconnects cancels other statements', () => {
      const writing = /\b(?:insert|update|delete|merge|nextval|setval|share|pg_\w*lock\w*)\b/i;
      for (const { name, text, lane } of prepared)
        if (lane !== 'write' && lane !== 'batch')
          assert.doesNotMatch(text.replace(/"[^"]*"|'[^']*'/g, ''), writing, name);
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
      for (const { text: complete } of lists(resource)) {
        const text = withoutExpanded(complete);
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
        fields
          .filter((field) => field.required)
          .map(({ name, type, alternatives }) => [
            name,
            type.examples[0] ?? (alternatives === undefined ? 1 : { resource: alternatives[0]?.to, id: 1 }),
          ]),
      );
      const filtered = Object.fromEntries(
        resource.definition.filters.map(({ field: { name, type, alternatives } }) => [
          name,
          alternatives === undefined ? String(type.examples.find(Boolean) ?? 1) : `${alternatives[0]?.to}/1`,
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

/** A resource that refers to a limited resource and shows its fields. */
const parts = {
  file: 'parts.yaml',
  text: `
singular: part
common: all
fields:
  code: { type: string, description: The code. }
  price: { type: number, nullable: true, group: prices, description: The price. }
  job_id: { type: reference, to: jobs, nullable: true, description: The job. }
  job_name: { type: joined, through: job_id, show: [name], description: The name of the job. }
  origin: { type: reference, to: [jobs, parts], nullable: true, description: Where it comes from. }
  used_ids: { type: references, to: jobs, description: The jobs that use it. }
sort: { by: created_at, direction: desc }
unique: [code]
filters: [code, job_id, origin, { field: used_ids, operators: [eq, ne, any, all] }]
search: [code]
scopes:
  paid: code != "free"
aggregates: { group_by: [code, job_id, origin, created_at], measures: [price] }
`,
};

/** A resource with every other key that affects statements. */
const tasks = {
  file: 'tasks.yaml',
  text: `
singular: task
common: all
trash: 30 days
custom_fields: true
fields:
  number: { type: string, sequence: "T-{000}", description: The number. }
  title: { type: string, description: The title. }
  state:
    type: string
    enum: [new, open, done]
    closed: true
    default: new
    transitions: { new: [open], open: { done: named, new: all } }
    description: The state.
  hours: { type: number, nullable: true, description: The hours. }
  effort: { type: number, computed: hours * 2, description: The effort. }
  rate: { type: number, nullable: true, group: rates, description: The hourly rate. }
  fee: { type: number, computed: hours * rate, group: rates, description: The fee. }
  label: { type: string, nullable: true, unique: true, default_from: title, description: The label. }
  job_id: { type: reference, to: jobs, nullable: true, on_delete: cascade, description: The job. }
  part_id: { type: reference, to: parts, nullable: true, on_delete: restrict, description: The part. }
  after_id: { type: reference, to: tasks, nullable: true, on_delete: cascade, description: The task before. }
  blocked_ids: { type: references, to: tasks, on_delete: restrict, description: The tasks that wait. }
checks:
  - { that: hours < 100, fields: [hours], message: Too long. }
sort: { by: created_at, direction: desc }
filters: [title, state, job_id, effort]
search: [title]
scopes:
  long: hours > 1
  named: title != ""
`,
};

/** The tasks without a transition in a scope, whose condition is evaluated for every caller. */
const unlimitedTasks = { ...tasks, text: tasks.text.replace('done: named', 'done: all') };

const more =
  'children:\n  pieces: { of: parts, by: job_id, writable: true }\naggregates: { group_by: [status, margin, parent_id, due_at, owner_id], measures: [score, cost, due_at] }\nlocked: status == "Done"\n';
const rollup =
  '  worked: { type: number, group: finance, rollup: { sum: hours, of: tasks, by: job_id }, description: The hours. }\n';
const limitedDefinitions = checkSources(
  await sourcesWith(
    { ...jobs, text: `${jobs.text.replace('sort:', `${rollup}sort:`)}${more}` },
    parts,
    tasks,
  ),
);

/** Conditions of the scopes to which the callers are limited, by table. An alias precedes the column. */
const scopeConditions: Readonly<Record<string, (alias: string) => string>> = {
  jobs: (alias) => `${alias}"status" collate "C" <> 'Done'::text`,
  parts: (alias) => `${alias}"code" collate "C" <> 'free'::text`,
  tasks: (alias) => `${alias}"hours" > '1'::bigint`,
};
const hiddenColumns = ['margin', 'cost', 'price', 'worked', 'rate', 'fee'];

/** Parts of statements that may read or write records outside the caller's scopes, with the reason. */
const unlimitedParts: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [
    /update "\w+" r set "\w+" = .*? where r\."organization_id" = \$\d+::bigint and r\."id" in \(select .*?\)(?: and true = any\(array\[.*?\]\))? returning r\.\*/g,
    'a merge moves the references in all records, and back if it is undone',
  ],
  [
    /select r\."id", .*? from "\w+" r where r\."organization_id" = \$\d+::bigint and r\."id" in \(select .*?\)(?: and r\."id" not in \([^()]*\))? for update of r/g,
    'a merge locks the records whose references it moves',
  ],
  [
    /exists \(select from "\w+" _x where _x\."organization_id" = \$1::bigint and _x\."id" = (?:_p\."\w+"|_e)\)/g,
    'a record that exists again refers to the same records as before the merge, if they exist',
  ],
  [
    /\(select max\(_l\."version"\) from "crm_ledger" _l where _l\."organization_id" = \$1::bigint and _l\."object" = '\w+' and _l\."object_id" = _p\."id"\)/g,
    'a record that exists again gets a version after all earlier ones',
  ],
  [
    /\(select to_jsonb\(t\)::text from "\w+" t where t\."organization_id" = \$1::bigint and t\."id" = \$\d::bigint\)/g,
    'a merge stores the records that it has locked',
  ],
  [
    /from "\w+" t(?= where _k\."organization_id" = \$1::bigint and _k\."resource" = '\w+' and _k\."record_id" = \$\d::bigint and _k\."from_id" = \$\d::bigint and t\."organization_id" = \$1::bigint and t\."id" = \$\d::bigint)/g,
    'a merge stores what it has changed in the record that it has locked',
  ],
  [
    /select r\."id" from (?:"\w+" r|lateral \(select .*?\) r) where r\."organization_id" = \$\d+::bigint and r\."\w+" = \$\d+::bigint limit 10001/g,
    'a merge counts the references that it moves',
  ],
  [
    /from "\w+" t cross join lateral unnest\(t\."\w+"\) _e where t\."organization_id" = \$\d+::bigint and t\."id" in \(\$\d+::bigint, \$\d+::bigint\)/g,
    'a merge counts the references in the lists of the records that it has locked',
  ],
  [
    /update "\w+" r\d+ set "\w+" = (?:null from _written|case .*? from \(select .*?\) _f) where .*? returning r\d+\.\*/g,
    'references to a deleted record are cleared for every caller',
  ],
  [
    /\(select row_to_json\(_r\)::text from "\w+" t cross join lateral \(.*?\) _r where t\."organization_id" = _w\."organization_id" and t\."id" = _w\."id" and t\."_version" = _w\."_version" - 1\)/g,
    'the change log contains the previous version of a record that was written',
  ],
  [
    /from "\w+" t(?=(?: left join .*?)? where t\."organization_id" = \$\d+::bigint and t\."id" = any\(\$\d+::bigint\[\]\) order by)/g,
    'a response contains the children that the request has written',
  ],
  [
    /coalesce\(\(select max\(case when substr\(t\."number".*? from "\w+" t where/g,
    'sequences continue after the values of all records',
  ],
  [
    /exists \(select from "\w+" _p where _p\."organization_id" = t\."organization_id" and \(_p\."id" = t\."\w+"\) and .*?\)::text/g,
    'a child is locked together with its record for every caller',
  ],
  [
    /, true\) from "\w+" t where t\."organization_id" = \$\d+::bigint and t\."id" = \$\d+::bigint$/g,
    'a request writes the children of a record that it has created',
  ],
  [
    /from "\w+" _o where _o\."organization_id" = \$1::bigint and _o\."id" = \$2::bigint/g,
    'the conflict of a record is explained after the restore has found the record',
  ],
  [
    /cross join lateral \((?:select \d+, r\."id", r\."_version" from "\w+" r where r\."organization_id" = \$1::bigint and r\."\w+" = _c\._id and _c\._kind = \d+(?: union all )?)+\) _e\(_kind, _id, _version\)/g,
    'a delete also removes the records that depend on a record',
  ],
  [
    /from "\w+" r where r\."organization_id" = \$1::bigint and r\."id" = _t\._id and r\."_version" = _t\._version for update of r/g,
    'a delete locks the records that it removes',
  ],
  [
    /(?:delete from|update) "\w+" t (?:set "_trashed_at" = now\(\) )?where t\."organization_id" = \$1::bigint and t\."id" = any \(array\(select "id" from _locked_\d+\)\) and exists \(select from _allowed\)/g,
    'a delete removes the records that it has locked',
  ],
  [
    /exists \(select from (?:"\w+" r|lateral \(select _s\.\*, _k\."target_id" as "_target" from "\w+" _k join "\w+" _s on _s\."organization_id" = \S+ and _s\."id" = _k\."record_id" where _k\."organization_id" = [^ )]+\) r) where r\."organization_id" = (?:\$1::bigint|t\."organization_id") and r\."/g,
    'the existence of a record that prevents a delete is not hidden',
  ],
  [
    /join "\w+" _s on _s\."organization_id" = \S+ and _s\."id" = _k\."record_id"(?= where _k\."organization_id" = [^ )]+\) r where r\."organization_id" = \$1::bigint and (?:r\."_trashed_at" is null and )?\(\(r\.)/g,
    'the records in a list of references are limited outside the subquery',
  ],
];
/** Parts of statements that may contain hidden columns, with the reason. */
const completeParts: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [
    /\(select row_to_json\(_r\)::text from (?:"\w+"|\(select _w\.\*\)) t cross join lateral \(select .*?\) _r(?: where .*? - 1)?\)/g,
    'the change log contains all fields',
  ],
  [
    /insert into "\w+" \([^()]*\) (?:values|select) /g,
    'new records have defaults in fields that the caller cannot write',
  ],
];

const without = (text: string, parts: typeof unlimitedParts) =>
  parts.reduce((rest, [pattern]) => rest.replaceAll(pattern, ''), text);

/** Returns the tables in a statement that are not limited to the caller's scopes. */
function unlimited(text: string): string[] {
  const rest = without(withoutTrashColumn(text), unlimitedParts);
  const wrong: string[] = [];
  const needed = new Map<string, number>();
  for (const [whole, verb, name = '', alias] of rest.matchAll(mention)) {
    const condition = scopeConditions[name];
    if (condition === undefined) continue;
    if (verb === 'insert into') {
      if (!rest.includes(`returning *, case when true and ((${condition('')}))`)) wrong.push(whole);
      continue;
    }
    const text = condition(`${alias}.`);
    needed.set(text, (needed.get(text) ?? 0) + 1);
  }
  for (const [condition, times] of needed)
    if (rest.split(condition).length - 1 < times) wrong.push(`${times} × ${condition}`);
  if (/from "crm_ledger" _l where (?!_l\."organization_id" = _w)/.test(rest)) {
    const isLimited = ['"before"', '"after"'].every((side) =>
      Object.keys(scopeConditions).some((name) =>
        rest.includes(`when '${name}' then coalesce(_i.${side} is not null and `),
      ),
    );
    if (!isLimited) wrong.push('changes');
  }
  return wrong;
}

/** Yields the statements that check the references in writes of limited callers. */
function* assignmentsOf({ operations }: ResourceView): Generator<Statement> {
  const { create, replace, patch, createBatch, patchBatch } = operations;
  const body = { job_id: 1, origin: { resource: 'jobs', id: 1 }, used_ids: [1], parent_id: 1 };
  const one = { ...plan, id: '1', body, conditions: undefined, idempotency: undefined };
  const many = { ...batchOf(20), match: '', idempotency: undefined };
  for (const statement of [
    create.assignment?.statement(one),
    replace.assignment?.statement(one),
    patch.assignment?.statement({ ...one, fieldNames: Object.keys(body) }),
    createBatch.assignment?.statement(many),
    createBatch.assignment?.statement({ ...many, idempotency: { key: 'k', bodyHash: 'h' } }),
    patchBatch.assignment?.statement(many),
  ])
    yield statement ?? assert.fail('the references are not checked');
}

/** Yields the statements that write and read the lists of children in bodies. */
function* childrenOf({ context }: ResourceView): Generator<Statement> {
  const lock = compileChildrenLock(context);
  if (lock !== undefined)
    yield* [lock.statement, lock.created].map((prepared) => prepared.bind({ ...plan, id: '1' }));
  for (const { existing, locked, listed, written, operations } of compileChildLists(context)) {
    const { create, patch, remove } = operations;
    const many = { ...batchOf(20), match: '', idempotency: undefined };
    yield* [existing, locked, listed].map((prepared) => prepared.bind({ ...plan, parent: '1' }));
    yield written.bind({ ...plan, ids: ['1'] });
    for (const statement of [
      create.statement(many),
      create.rejection?.statement(many),
      create.assignment?.statement(many),
      patch.statement(many),
      patch.rejection?.statement(many),
      patch.assignment?.statement(many),
      remove.statement({ ...many, conditions: undefined, rejections: 0 }),
    ])
      yield statement ?? assert.fail('children are not checked');
  }
}

/** Returns the hidden columns in a statement. */
const hiddenIn = (text: string): string[] =>
  hiddenColumns.filter((name) => without(text, completeParts).includes(`"${name}"`));

const limitedActions = ['list', 'read', 'create', 'update', 'delete'];
const limitedGrants = compileGrants(
  Object.entries({ jobs: 'open', parts: 'paid', tasks: 'long' }).flatMap(([object, scope]) =>
    [...limitedActions, ...(object === 'tasks' ? ['restore'] : [])].map((action) => ({
      object,
      action: `${action}:${scope}`,
    })),
  ),
);
const limitedCaller = { principal: { ...principal, grants: limitedGrants }, requestId: 'r' };
const limitedResources = compileResource(limitedDefinitions, '/api', [effects.audit]).filter(
  ({ name }) => scopeConditions[name] !== undefined,
);
const limitedStatements = new Map<string, Awaited<ReturnType<typeof otherStatements>>>();
for (const resource of limitedResources)
  limitedStatements.set(resource.name, await otherStatements(resource, limitedResources, limitedCaller));

test('the files that prepare statements are listed, with what covers their statements', () => {
  assert.deepEqual(
    readStatementFiles(),
    Object.fromEntries(Object.entries(statementFiles).map(([file, [places]]) => [file, places])),
  );
});

describe('statements on behalf of a limited caller', () => {
  const [caller, grants] = [limitedCaller, limitedGrants];
  const input = { caller, id: '1' };

  test('exist for every function outside the operations', () => {
    const functions = [...limitedStatements.values()].flatMap((statements) => [...statements]);
    for (const name of new Set(functions.map(([name]) => name)))
      assert.ok(
        functions.some(([other, statements]) => other === name && statements.length > 0),
        name,
      );
  });

  const statementsOf = (resource: Resource) => {
    const view = resource.viewFor(grants);
    const { create, createBatch, history } = view.operations;
    const idempotency = { key: 'k', bodyHash: 'h' };
    const storedRow = (json: string) => [['stored', json, 'tag', '1', 'h']];
    return [
      ...all(view),
      ...assignmentsOf(view),
      ...childrenOf(view),
      ...[...(limitedStatements.get(resource.name)?.values() ?? [])].flat(),
      ...[
        history.statement(history.plan(input)),
        create.followUp?.({ ...plan, caller, body: {}, idempotency }, storedRow('{}')),
        createBatch.followUp?.(
          { ...batchOf(0), caller, match: '', idempotency },
          storedRow('{"results":[]}'),
        ),
      ].map((statement) => statement ?? assert.fail()),
    ];
  };
  const compiled = limitedResources.map((resource) => {
    const statements = statementsOf(resource);
    const texts = statements.flatMap(({ text, many }) => [text, ...(many === undefined ? [] : [many.text])]);
    return { resource, statements, texts };
  });

  test('each listed part occurs', () => {
    const all = compiled.flatMap(({ texts }) => texts);
    for (const [pattern, reason] of [...unlimitedParts, ...completeParts])
      assert.ok(
        all.some((text) => text.search(pattern) >= 0),
        reason,
      );
  });

  for (const { resource, statements, texts } of compiled) {
    test(`${resource.name}: contain the caller's scopes`, () => {
      assert.ok(texts.length > 50);
      for (const text of texts) assert.deepEqual(unlimited(text), [], text);
    });

    test(`${resource.name}: do not contain hidden columns`, () => {
      for (const text of texts) assert.deepEqual(hiddenIn(text), [], text);
    });

    test(`${resource.name}: differ from those of other callers in their names`, () => {
      const names = new Set([...all(resource)].map(({ name }) => name).filter((name) => name !== ''));
      for (const { name } of statements) assert.ok(!names.has(name), name);
    });

    test(`${resource.name}: the check detects statements of other callers`, () => {
      const other = resource.operations;
      for (const statement of [
        other.read.statement(other.read.plan(input)),
        other.list.statement(other.list.plan(input)),
        other.history.statement(other.history.plan(input)),
        other.create.statement({ ...plan, body: {}, idempotency: undefined }),
        other.remove.statement(other.remove.plan(input)),
        other.restore?.statement(other.restore.plan(input)),
      ])
        if (statement !== undefined) assert.notDeepEqual(unlimited(statement.text), [], statement.text);
      for (const statement of [
        other.read.statement(other.read.plan(input)),
        other.list.statement(other.list.plan(input)),
      ])
        assert.notDeepEqual(hiddenIn(statement?.text ?? ''), []);
    });
  }
});

describe('statements on behalf of callers without limits', () => {
  /** Returns the definitions without their scopes and field groups. */
  const withoutLimits = ({ text, ...source }: { readonly file: string; readonly text: string }) => ({
    ...source,
    text: text.replace(/^scopes:\n(?: .*\n)*/gm, '').replace(/, group: \w+/g, ''),
  });
  const compiledFrom = async (sources: readonly { readonly file: string; readonly text: string }[]) =>
    compileResource(checkSources(await sourcesWith(...sources)), '/api', Object.values(effects));
  test('are the same with and without scopes and field groups', async () => {
    const sources = [{ ...jobs, text: `${jobs.text}${more}` }, parts, unlimitedTasks];
    const grants = compileGrants([{ object: '*', action: '*' }]);
    const [limited, plain] = [await compiledFrom(sources), await compiledFrom(sources.map(withoutLimits))];
    assert.ok(limited.some(({ definition }) => definition.scopes.length > 0));
    assert.ok(plain.every(({ definition }) => definition.scopes.length === 0));
    for (const [index, resource] of limited.entries()) {
      if (scopeConditions[resource.name] === undefined) continue;
      const view = resource.viewFor(grants);
      assert.equal(view.operations, resource.operations);
      // Custom fields can belong to the field groups that the definition declares. Entity tags contain a hash of the columns.
      const withoutGroups = (text: string | undefined) =>
        text
          ?.replaceAll(
            `(_f."field_group" is null or _f."field_group" in ('rates'))`,
            '_f."field_group" is null',
          )
          .replaceAll(/'-[0-9a-f]{8}'/g, "'-hash'");
      const texts = (each: ResourceView) =>
        [...all(each)].map(({ name, text, many }) => [name, withoutGroups(text), withoutGroups(many?.text)]);
      const other = plain[index] ?? assert.fail();
      assert.equal(other.name, resource.name);
      assert.deepEqual(texts(view), texts(other));
    }
  });
});
