import type { ResourceDefinition } from '../definition/index.ts';
import type { Placeholder } from '../sql/index.ts';
import { actorNameSql } from './email-addresses.ts';
import { isLogged } from './projection.ts';
import type { CallerScope } from './rows.ts';

/**
 * Returns the names of the fields included in changes. Sensitive fields are excluded even if they were logged
 * before they became sensitive.
 */
export const loggedFieldNames = ({ fields }: Pick<ResourceDefinition, 'fields'>): string[] =>
  fields.filter(isLogged).map(({ name }) => name);

/**
 * Returns an SQL condition that is true if row `p` of the change log contains the previous version of the
 * record in row `l`, and row `l` does not also contain that version.
 */
export const hasPreviousVersionSql = (p: string, l: string): string =>
  `${p}."organization_id" = ${l}."organization_id" and ${p}."object" = ${l}."object" and ${p}."object_id" = ${l}."object_id" and ${p}."version" = ${l}."version" - 1 and ${l}."before" is null and ${l}."action" = 'update'`;

/**
 * SQL expression for the names of changed fields, as a JSON array in text form. The array contains all fields
 * if the record was created or deleted. For updates, it omits fields that were not defined in both versions.
 */
const changedNames = `(select '[' || coalesce(string_agg(to_json(_n.key)::text, ',' order by _n.place), '') || ']' from json_each(coalesce(_s."after", _s."before")) with ordinality _n(key, value, place) left join json_each(case when l."action" = 'update' then _s."before" end) _o on _o.key = _n.key where _n.key = any(_s."fields") and _o.value::text is distinct from _n.value::text and (_o.key is not null) = (l."action" = 'update'))`;

/**
 * Returns the FROM clause that joins rows `l` of the change log to `_s`, the record before and after the
 * change.
 * @param fence `offset 0` if long values must be parsed only once
 */
export const withBefore = (rows: string, fields: string, fence = ''): string =>
  `from (${rows}) l left join "crm_ledger" p on ${hasPreviousVersionSql('p', 'l')} cross join lateral (select ${fields} as "fields", l."record"::json as "after", coalesce(l."before", p."record")::json as "before"${fence}) _s`;

/**
 * Returns the statement that selects columns from change log rows, and the names of changed fields as
 * `changed`.
 * @param rows see {@link SelectedChanges}
 * @param fields see {@link SelectedChanges}
 */
export const selectChangedNames = (rows: string, fields: string, columns: string): string =>
  `select ${columns}, ${changedNames} as "changed" ${withBefore(rows, fields)}`;

/**
 * SQL expression for the previous values of the changed fields, as a JSON object in text form: all values if the record was
 * deleted. Null if the record did not exist or its previous state is unknown.
 */
const previousValues = `(select '{' || coalesce(string_agg(to_json(_o.key)::text || ':' || _o.value::text, ',' order by _o.place), '') || '}' from json_each(_s."before") with ordinality _o(key, value, place) left join json_each(_s."after") _n on _n.key = _o.key where _o.key = any(_s."fields") and _o.value::text is distinct from _n.value::text and (_n.key is not null or _s."after" is null) having _s."before" is not null)`;

/** SQL expression for the record after a change, as a JSON object in text form; null if it was deleted. */
const stateAfter = `(select '{' || string_agg(to_json(_n.key)::text || ':' || _n.value::text, ',' order by _n.place) || '}' from json_each(_s."after") with ordinality _n(key, value, place) where _n.key = any(_s."fields"))`;

/**
 * Returns the statement that selects changes with the names of the changed fields, their previous values and the record
 * after each change.
 */
export const selectChangeStates = ({ rows, fields }: Pick<SelectedChanges, 'rows' | 'fields'>): string =>
  `select l."action", ${changedNames} as "changed", ${previousValues} as "previous", ${stateAfter} as "after" ${withBefore(rows, fields, ' offset 0')}`;

/** The changes that a statement selects. */
interface SelectedChanges {
  /** Selects rows of the change log. */
  readonly rows: string;
  /** SQL expression for an array of the field names to include, which can refer to row `l`. */
  readonly fields: string;
  /** ORDER BY expressions for rows `l`. */
  readonly order: string;
  /** Additional columns, each starting with a comma. */
  readonly extraColumns?: string;
  /** Maximum length of text values, in characters; unlimited if undefined. */
  readonly excerpt?: number | undefined;
}

/** Returns the statement that selects changes as JSON, each with the record before and after the change. */
export const selectChanges = (
  { rows, fields, order, extraColumns = '', excerpt }: SelectedChanges,
  placeholder: Placeholder<CallerScope>,
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
    actor: `(select row_to_json(_a) from (select l."actor_kind" as "kind", l."actor_id" as "id", ${actorNameSql(placeholder)} as "name") _a)`,
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
