import type { ResourceDefinition } from '../definition/index.ts';
import type { JsonSchema } from '../fields/index.ts';
import { isLogged } from './projection.ts';

/** Schema names for a change and a list of changes in the OpenAPI document. */
export const changeSchema = 'Change';
export const changesSchema = 'Changes';

/**
 * Returns the names of the fields included in changes. Sensitive fields are excluded even if they were logged
 * before they became sensitive.
 */
export const loggedFieldNames = ({ fields }: Pick<ResourceDefinition, 'fields'>): string[] =>
  fields.filter(isLogged).map(({ name }) => name);

/**
 * Returns an SQL condition that is true if row `p` of the change log contains the previous version of the
 * record in row `l`, and row `l` does not contain that version itself.
 */
export const hasPreviousVersionSql = (p: string, l: string): string =>
  `${p}."organization_id" = ${l}."organization_id" and ${p}."object" = ${l}."object" and ${p}."object_id" = ${l}."object_id" and ${p}."version" = ${l}."version" - 1 and ${l}."before" is null and ${l}."action" = 'update'`;

/**
 * SQL expression for the names of changed fields, as the text of a JSON array. It contains all fields if the
 * record was created or deleted. For updates, it omits fields that were not defined in both versions.
 */
const changedNames = `(select '[' || coalesce(string_agg(to_json(_n.key)::text, ',' order by _n.place), '') || ']' from json_each(coalesce(_s."after", _s."before")) with ordinality _n(key, value, place) left join json_each(case when l."action" = 'update' then _s."before" end) _o on _o.key = _n.key where _n.key = any(_s."fields") and _o.value::text is distinct from _n.value::text and (_o.key is not null) = (l."action" = 'update'))`;

/**
 * Returns the FROM clause that joins rows `l` of the change log to `_s`, the record before and after the
 * change.
 * @param fence `offset 0` if long texts must be parsed only once
 */
const withBefore = (rows: string, fields: string, fence = ''): string =>
  `from (${rows}) l left join "crm_ledger" p on ${hasPreviousVersionSql('p', 'l')} cross join lateral (select ${fields} as "fields", l."record"::json as "after", coalesce(l."before", p."record")::json as "before"${fence}) _s`;

/**
 * Returns the statement that selects columns of change log rows, and the names of changed fields as
 * `changed`.
 * @param rows see {@link selectChanges}
 * @param fields see {@link selectChanges}
 */
export const selectChangedNames = (rows: string, fields: string, columns: string): string =>
  `select ${columns}, ${changedNames} as "changed" ${withBefore(rows, fields)}`;

/**
 * Returns the statement that selects changes as JSON, each with the record before and after it.
 * @param rows selects rows of the change log
 * @param fields SQL expression for an array of the field names to include, which can refer to row `l`
 * @param order ORDER BY expressions for rows `l`
 * @param extraColumns additional columns, each starting with a comma
 * @param excerpt maximum number of characters per text; unlimited if undefined
 */
export const selectChanges = (
  rows: string,
  fields: string,
  order: string,
  extraColumns = '',
  excerpt?: number,
): string => {
  // Cast to text, because JSON functions would reformat the stored values, for example exact numbers.
  const value =
    excerpt === undefined
      ? '_f.value::text'
      : `case when json_typeof(_f.value) = 'string' and length(_f.value::text) > ${excerpt} then to_json(left(_f.value #>> '{}', ${excerpt}))::text else _f.value::text end`;
  const fieldsJson = (json: string) =>
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
    before: fieldsJson('_s."before"'),
    after: fieldsJson('_s."after"'),
  };
  const columns = Object.entries(values).map(([name, value]) => `${value} as "${name}"`);
  return [
    `select row_to_json(_e)::text${extraColumns} ${withBefore(rows, fields, excerpt === undefined ? '' : ' offset 0')}`,
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

/** The OpenAPI schemas of changes. */
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
      at: { type: 'string', format: 'date-time', description: 'Start time of the transaction, in UTC.' },
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
        description: 'The fields that changed, or all fields if the record was created or deleted.',
      },
      before: record(
        'The record before the change, without joined and sensitive fields; null if it did not exist or is unknown.',
      ),
      after: record(
        'The record after the change, without joined and sensitive fields; null if it was deleted.',
      ),
    },
  },
  [changesSchema]: {
    type: 'object',
    required: ['data'],
    properties: { data: { type: 'array', items: { $ref: `#/components/schemas/${changeSchema}` } } },
  },
};
