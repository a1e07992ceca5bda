import { createHash } from 'node:crypto';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { column, quote, record, versionColumn } from '../sql/index.ts';

/** The SQL that selects a record. */
export interface Projection {
  /** The record's columns, named after its fields. */
  readonly columns: string;
  /** The joins for joined fields, each starting with a space. */
  readonly joins: string;
  /** Returns only the columns and joins for these fields. */
  readonly only: (fields: readonly Field[]) => Pick<Projection, 'columns' | 'joins'>;
  /** The columns stored in the change log: the record's own fields except sensitive ones. */
  readonly loggedColumns: string;
  /**
   * SQL expression for the versions that determine the record's text: its own version and the versions of
   * joined records.
   */
  readonly versions: string;
  /** Like `versions`, but without joins, for write preconditions. */
  readonly currentVersions: string;
  /** Identifies the projection. Definitions that represent the same row differently have different marks. */
  readonly mark: string;
}

/**
 * Returns the record's columns, named after its fields, and the joins for joined fields.
 * @param excerpt maximum length of text values, in characters; unlimited if undefined
 */
export function projection(
  definition: ResourceDefinition,
  definitions: readonly ResourceDefinition[],
  excerpt?: number,
): Projection {
  const links = new Map<string, Link>();
  const columns = new Map<string, string>();
  const values = new Map<string, string>();
  const addColumn = (field: Field, sql: string) => {
    const isText = field.type.bounded === true || field.through !== undefined;
    const value = isText && excerpt !== undefined ? `left(${sql}, ${excerpt})` : sql;
    values.set(field.name, value);
    columns.set(field.name, `${value} as ${quote(field.name)}`);
  };
  for (const field of definition.fields) {
    // In `definition.fields`, a field precedes its aliases.
    const aliasedValue = field.aliasOf && values.get(field.aliasOf.name);
    if (aliasedValue !== undefined || field.through === undefined) {
      addColumn(field, aliasedValue ?? responseValueSql(field));
      continue;
    }
    const link = definition.fields.find(({ name }) => name === field.through);
    const target = definitions.find(({ name }) => name === link?.to);
    if (link === undefined || target === undefined) throw new Error(`${field.name} follows no reference`);
    const alias = quote(`via_${link.name}`);
    // The join is limited to the record's organization, so it does not need a separate visibility condition.
    const condition = `${alias}."organization_id" = ${record}."organization_id" and ${alias}."id" = ${column(link)}`;
    // If a record refers to itself, the join would return the version before this statement's write.
    const version = (joinedVersion: string) =>
      target.name === definition.name
        ? `case when ${column(link)} = ${record}."id" then ${versionOf(record)} else ${joinedVersion} end`
        : joinedVersion;
    links.set(link.name, { alias, from: `${quote(target.name)} ${alias}`, condition, version });
    addColumn(field, joinedText(field, link, target, definition, alias));
  }
  const only: Projection['only'] = (fields) => ({
    columns: fields.map(({ name }) => columns.get(name)).join(', '),
    joins: [...links]
      .filter(([name]) => fields.some(({ through }) => through === name))
      .map(([, { from, condition }]) => ` left join ${from} on ${condition}`)
      .join(''),
  });
  const joinedLinks = [...links.values()];
  const allColumns = only(definition.fields);
  return {
    ...allColumns,
    only,
    loggedColumns: only(definition.fields.filter(isLogged)).columns,
    versions: versionsOf(joinedLinks.map(({ alias, version }) => version(versionOf(alias)))),
    currentVersions: versionsOf(
      joinedLinks.map(({ alias, from, condition, version }) =>
        version(`(select ${versionOf(alias)} from ${from} where ${condition})`),
      ),
    ),
    mark: markOf(allColumns, definition),
  };
}

/** Returns whether the change log stores a field's values. Joined values belong to other records. */
export const isLogged = ({ through, sensitive }: Field): boolean => through === undefined && !sensitive;

/** Returns an SQL expression for a stored value in the form used in responses. */
export const responseValueSql = (field: Field): string =>
  field.type.read?.(fieldColumns(field).map(column)) ?? column(field);

/** A reference used by joined fields. */
interface Link {
  readonly alias: string;
  readonly from: string;
  /** The condition that finds the referenced record. */
  readonly condition: string;
  /**
   * Returns an SQL expression for the referenced record's version.
   * @param joinedVersion SQL expression for the joined row's version
   */
  readonly version: (joinedVersion: string) => string;
}

const versionOf = (alias: string) => `${alias}.${quote(versionColumn)}`;

/**
 * Returns an SQL expression for the versions of the record and its joined records, separated by dots. A
 * missing record's version is empty.
 */
const versionsOf = (joinedVersions: readonly string[]): string =>
  [`${versionOf(record)}::text`, ...joinedVersions.map((version) => `coalesce((${version})::text, '')`)].join(
    ` || '.' || `,
  );

/**
 * Returns the projection's mark. It includes the column types, because the same SQL returns different text
 * for another type. It must not include anything else, because a new mark invalidates all entity tags.
 */
const markOf = (sql: object, { fields }: ResourceDefinition): string =>
  createHash('sha256')
    .update(JSON.stringify([sql, fields.flatMap(fieldColumns).map(({ sample: _, ...column }) => column)]))
    .digest('hex')
    .slice(0, 8);

/**
 * Returns an SQL expression for a joined field's text. Several values are separated by spaces, and the result
 * is trimmed.
 */
function joinedText(
  field: Field,
  link: Field,
  target: ResourceDefinition,
  definition: ResourceDefinition,
  alias: string,
): string {
  const textFrom = (table: string) => {
    const texts = (field.show ?? []).map((name) => {
      const text = target.fields.find((targetField) => targetField.name === name)?.type.text;
      const value = `${table}.${quote(name)}`;
      // The value is null if the record does not exist or its field is null.
      return `coalesce(${text?.(value) ?? value}, '')`;
    });
    return texts.length === 1 ? (texts[0] ?? "''") : `btrim(${texts.join(` || ' ' || `)})`;
  };
  const joinedValue = textFrom(alias);
  // If a record refers to itself, the join would return the values before this statement's write.
  return target.name === definition.name
    ? `case when ${column(link)} = ${record}."id" then ${textFrom(record)} else ${joinedValue} end`
    : joinedValue;
}
