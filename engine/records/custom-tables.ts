import type { Generated } from 'kysely';
import type { ResourceDefinition } from '../definition/index.ts';
import { type FieldTypeName, fieldTypes, maxCustomBytes } from '../fields/index.ts';
import { customValueColumns, customValuesTable } from '../query/index.ts';
import { literal, quote } from '../sql/index.ts';
import {
  bigintColumn,
  booleanColumn,
  defineTable,
  identity,
  now,
  tenant,
  textColumn,
  timestampColumn,
} from '../tables/index.ts';
import { fieldGroups } from './access.ts';
import { integrityConstraint } from './constraints.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_custom_fields: {
      organization_id: string;
      id: Generated<string>;
      resource: string;
      /** Key of the values in the records' `custom` object. */
      name: string;
      type: string;
      /** The field's other properties as JSON. */
      options: string;
      /** The field group whose grants callers need, or null. The property is also one of the options. */
      field_group: string | null;
      created_at: Generated<Date>;
      /** When the field was deleted. Its values are kept for a while. */
      deleted_at: Date | null;
    };
    crm_custom_values: {
      organization_id: string;
      resource: string;
      record_id: string;
      field: string;
      text_value: string | null;
      number_value: string | null;
      boolean_value: boolean | null;
      date_value: string | null;
      time_value: Date | null;
    };
  }
}

/** The table with the custom fields of all organizations. */
export const customFieldsTable = 'crm_custom_fields';

const customFields = defineTable(
  customFieldsTable,
  {
    ...tenant(),
    id: identity,
    resource: textColumn,
    name: textColumn,
    type: textColumn,
    options: textColumn,
    field_group: { ...textColumn, nullable: true },
    created_at: now,
    deleted_at: { ...timestampColumn, nullable: true },
  },
  {
    uniques: [{ name: 'crm_custom_fields_name', properties: ['organization_id', 'resource', 'name'] }],
    resourceColumns: ['resource'],
  },
);

const nullable = { nullable: true };

/** Returns an index that finds the records with a value of a custom field. */
const valueIndex = (column: string, key = quote(column)) => ({
  name: `${customValuesTable}_${column.replace('_value', '')}`,
  keys: [...['organization_id', 'resource', 'field'].map(quote), key, quote('record_id')],
  where: `${quote(column)} is not null`,
});

const customValues = defineTable(
  customValuesTable,
  {
    ...tenant(),
    resource: { ...textColumn, primary: true },
    record_id: { ...bigintColumn, primary: true },
    field: { ...textColumn, primary: true },
    text_value: { ...textColumn, ...nullable },
    number_value: { type: 'numeric', columnType: 'numeric', ...nullable },
    boolean_value: { ...booleanColumn, ...nullable },
    date_value: { type: 'date', columnType: 'date', ...nullable },
    time_value: { ...timestampColumn, ...nullable },
  },
  {
    indexes: [
      valueIndex('text_value', 'left("text_value", 100)'),
      valueIndex('number_value'),
      valueIndex('boolean_value'),
      valueIndex('date_value'),
      valueIndex('time_value'),
    ],
    resourceColumns: ['resource'],
  },
);

/** The tables of custom fields. */
export const customFieldTables = [customFields, customValues];

/** Returns the condition that a row `_f` is a custom field of a resource, including deleted ones. */
const ofResource = (organization: string, resource: string) =>
  `_f."organization_id" = ${organization} and _f."resource" = ${literal(resource)}`;

/**
 * Returns the FROM and WHERE clauses for a resource's custom fields, as `_f`, without deleted ones.
 * @param organization SQL expression for the ID of the organization
 */
export const fromCustomFields = (resource: string, organization: string): string =>
  `from ${quote(customFieldsTable)} _f where ${ofResource(organization, resource)} and _f."deleted_at" is null`;

/**
 * Returns the condition that a custom field `_f` is visible to callers who can read these field groups. Callers do not see fields
 * of a group that the resource no longer has.
 */
export const visibleCustomSql = (groups: readonly string[]): string =>
  groups.length === 0
    ? '_f."field_group" is null'
    : `(_f."field_group" is null or _f."field_group" in (${groups.map(literal).join(', ')}))`;

/**
 * Returns an SQL expression for the defaults of a resource's custom fields by key.
 * @param organization SQL expression for the ID of the organization
 */
export const customDefaultsSql = (resource: string, organization: string): string =>
  // The first condition prevents options without a default from being parsed.
  `(select coalesce(jsonb_object_agg(_f."name", _f."options"::jsonb -> 'default'), '{}') ${fromCustomFields(resource, organization)} and position('"default"' in _f."options") > 0 and jsonb_exists(_f."options"::jsonb, 'default'))`;

/**
 * Returns an SQL expression for the values of custom fields in a logged record of row `l` of the change log, without the fields
 * that a caller who can read these field groups does not see.
 * @param values SQL expression for the logged values, as JSON
 */
export const visibleLoggedCustomSql = (resource: string, groups: readonly string[], values: string): string =>
  `coalesce((select '{' || string_agg(to_json(_c.key)::text || ':' || _c.value::text, ',' order by _c.place) || '}' from json_each(case json_typeof(${values}) when 'object' then ${values} else '{}' end) with ordinality _c(key, value, place) where exists (select from ${quote(customFieldsTable)} _f where ${ofResource('l."organization_id"', resource)} and _f."name" = _c.key and ${visibleCustomSql(groups)})), '{}')`;

/**
 * Returns the body of the trigger that copies the values of a resource's custom fields to the table of values, including the
 * values of deleted fields, which can be restored. If the resource has field groups, the trigger also limits the size of the
 * values of each group.
 * @param column name of the column with the values
 */
export function customValuesTriggerBody(
  definition: Pick<ResourceDefinition, 'name' | 'fields'>,
  column: string,
): string {
  const { name: resource } = definition;
  const values = quote(column);
  const isOwn = `_v."organization_id" = old."organization_id" and _v."resource" = ${literal(resource)} and _v."record_id" = old."id"`;
  const byColumn = Map.groupBy(Object.entries(customValueColumns), ([, valueColumn]) => valueColumn);
  const text = `(_e.value #>> '{}')`;
  const columns = [...byColumn].map(([valueColumn, types]) => {
    const names = types.map(([type]) => literal(type)).join(', ');
    const type = fieldTypes[(types[0]?.[0] ?? 'text') as FieldTypeName];
    const [value] = (valueColumn === 'number_value' ? fieldTypes.number : type).fromText?.columns(text) ?? [];
    return { name: valueColumn, value: `case when _f."type" in (${names}) then ${value} end` };
  });
  const key = ['organization_id', 'resource', 'record_id', 'field'];
  const target = [...key, ...columns.map(({ name }) => name)];
  const source = `jsonb_each(new.${values}) _e join ${quote(customFieldsTable)} _f on ${ofResource('new."organization_id"', resource)} and _f."name" = _e.key`;
  const isChanged = `tg_op = 'INSERT' or _e.value is distinct from old.${values} -> _e.key`;
  const isTooLarge = `octet_length(jsonb_object_agg(_e.key, _e.value)::text) > ${maxCustomBytes}`;
  return [
    ...(fieldGroups(definition).length === 0
      ? []
      : [
          // Other groups must not affect the result.
          `if tg_op <> 'DELETE' and octet_length(new.${values}::text) > ${maxCustomBytes} and exists (select from ${source} group by _f."field_group" having bool_or(${isChanged}) and ${isTooLarge}) then raise exception using errcode = 'check_violation', table = ${literal(resource)}, constraint = ${literal(integrityConstraint(resource, column))}; end if;`,
        ]),
    `if tg_op <> 'INSERT' then delete from ${quote(customValuesTable)} _v where ${isOwn} and (tg_op = 'DELETE' or new.${values} -> _v."field" is distinct from old.${values} -> _v."field"); end if;`,
    `if tg_op <> 'DELETE' and new.${values} <> '{}' then insert into ${quote(customValuesTable)} (${target.map(quote).join(', ')}) select new."organization_id", ${literal(resource)}, new."id", _f."name", ${columns.map(({ value }) => value).join(', ')} from ${source} where ${isChanged} on conflict (${key.map(quote).join(', ')}) do update set ${columns.map(({ name }) => `${quote(name)} = excluded.${quote(name)}`).join(', ')}; end if;`,
    'return null;',
  ].join(' ');
}
