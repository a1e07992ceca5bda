import type { ResourceDefinition } from '../definition/index.ts';
import type { JsonSchema } from '../fields/index.ts';
import { isLogged } from './projection.ts';

/** The name of the schema of changes in the OpenAPI document, and of a list of them. */
export const changeSchema = 'Change';
export const changesSchema = 'Changes';

/** The names of a resource's fields that changes show: also what was recorded while a field was not sensitive stays hidden. */
export const loggedFieldNames = ({ fields }: Pick<ResourceDefinition, 'fields'>): string[] =>
  fields.filter(isLogged).map(({ name }) => name);

/** The condition that a row `p` of the ledger has the record as it was before the change of a row `l`, which has it not itself. */
export const hasPreviousVersionSql = (p: string, l: string): string =>
  `${p}."organization_id" = ${l}."organization_id" and ${p}."object" = ${l}."object" and ${p}."object_id" = ${l}."object_id" and ${p}."version" = ${l}."version" - 1 and ${l}."before" is null and ${l}."action" = 'update'`;

/** SQL of the names of the fields that a change changed, a JSON array as text; of a record that is new or gone every field, of others not those that their definition did not have then. */
const changedNames = `(select '[' || coalesce(string_agg(to_json(_n.key)::text, ',' order by _n.place), '') || ']' from json_each(coalesce(_s."after", _s."before")) with ordinality _n(key, value, place) left join json_each(case when l."action" = 'update' then _s."before" end) _o on _o.key = _n.key where _n.key = any(_s."fields") and _o.value::text is distinct from _n.value::text and (_o.key is not null) = (l."action" = 'update'))`;

/**
 * Rows `l` of the ledger, each with what the record was before and after (`_s`).
 * @param once with OFFSET 0, long texts are parsed once, not wherever they are used
 */
const withBefore = (rows: string, fields: string, once = ''): string =>
  `from (${rows}) l left join "crm_ledger" p on ${hasPreviousVersionSql('p', 'l')} cross join lateral (select ${fields} as "fields", l."record"::json as "after", coalesce(l."before", p."record")::json as "before"${once}) _s`;

/**
 * The statement that selects columns of rows of the ledger, and `changed`: the names of the fields that differ.
 * @param rows and `fields`: as for {@link selectChanges}
 */
export const selectChangedNames = (rows: string, fields: string, columns: string): string =>
  `select ${columns}, ${changedNames} as "changed" ${withBefore(rows, fields)}`;

/**
 * The statement that shows rows of the ledger as JSON, each with what the record was before.
 * @param rows selects rows of the ledger
 * @param fields SQL of the array of the fields that are shown of a row `l`
 * @param order of the rows, called `l`
 * @param further columns, each beginning with a comma
 * @param excerpt characters of each text to select; undefined: all
 */
export const selectChanges = (
  rows: string,
  fields: string,
  order: string,
  further = '',
  excerpt?: number,
): string => {
  // As text: what is stored comes back byte by byte, exact numbers included.
  const value =
    excerpt === undefined
      ? '_f.value::text'
      : `case when json_typeof(_f.value) = 'string' and length(_f.value::text) > ${excerpt} then to_json(left(_f.value #>> '{}', ${excerpt}))::text else _f.value::text end`;
  const shown = (json: string) =>
    `(select '{' || string_agg(to_json(_f.key)::text || ':' || ${value}, ',') || '}' from json_each(${json}) _f where _f.key = any(_s."fields"))::json`;
  const values = {
    position: `l."transaction"::text || '-' || l."id"::text`,
    at: `replace((l."at" at time zone 'UTC')::text, ' ', 'T') || 'Z'`,
    actor: `(select row_to_json(_a) from (select l."actor_kind" as "kind", l."actor_id" as "id", l."actor_name" as "name") _a)`,
    request_id: 'l."request_id"',
    resource: 'l."object"',
    id: 'l."object_id"',
    action: 'l."action"',
    version: 'l."version"',
    changed: `${changedNames}::json`,
    before: shown('_s."before"'),
    after: shown('_s."after"'),
  };
  const columns = Object.entries(values).map(([name, value]) => `${value} as "${name}"`);
  return [
    `select row_to_json(_e)::text${further} ${withBefore(rows, fields, excerpt === undefined ? '' : ' offset 0')}`,
    `cross join lateral (select ${columns.join(', ')}) _e order by ${order}`,
  ].join(' ');
};

const int64 = { type: 'integer', format: 'int64' };
const nullable = (type: string) => ({ type: [type, 'null'] });
const record = (description: string): JsonSchema => ({
  type: ['object', 'null'],
  description,
  additionalProperties: true,
});

/** What changes are, for the description. */
export const changeSchemas: Readonly<Record<string, JsonSchema>> = {
  [changeSchema]: {
    type: 'object',
    description: 'A change to a record.',
    required: [
      'position',
      'at',
      'actor',
      'request_id',
      'resource',
      'id',
      'action',
      'version',
      'changed',
      'before',
      'after',
    ],
    properties: {
      position: { type: 'string', description: 'Identifies the change.' },
      at: { type: 'string', format: 'date-time', description: 'When the transaction started, in UTC.' },
      actor: {
        type: 'object',
        description: 'The key or user that made the change, with its name or email address at that time.',
        required: ['kind', 'id', 'name'],
        properties: {
          kind: { type: 'string', description: '`user`, `key`, `partner` or `command`.' },
          id: { ...int64, ...nullable('integer') },
          name: nullable('string'),
        },
      },
      request_id: nullable('string'),
      resource: { type: 'string' },
      id: int64,
      action: { type: 'string', description: '`create`, `update` or `delete`.' },
      version: {
        ...int64,
        description: 'Increases with every change to the record. A lower version is an older change.',
      },
      changed: {
        type: 'array',
        items: { type: 'string' },
        description: 'The fields whose values differ; all fields if the record was created or deleted.',
      },
      before: record(
        'The record before, without joined and sensitive fields; null if it did not exist or is unknown.',
      ),
      after: record('The record after it, without joined and sensitive fields; null where it is gone.'),
    },
  },
  [changesSchema]: {
    type: 'object',
    required: ['data'],
    properties: { data: { type: 'array', items: { $ref: `#/components/schemas/${changeSchema}` } } },
  },
};
