import { createHash } from 'node:crypto';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns, isStoredRollup } from '../fields/index.ts';
import { column, type Placeholder, quote, record, versionColumn } from '../sql/index.ts';
import { fieldGroups } from './access.ts';
import { fromCustomFields, visibleCustomSql } from './custom-tables.ts';
import { hidesReferences, visibleIdsSql } from './link-tables.ts';
import { rollupValueSql } from './rollups.ts';
import { type CallerScope, referenceLimitSql, type VisibleResource } from './rows.ts';

/** SQL that depends on the statement's placeholders. */
type BoundSql = (placeholder: Placeholder<CallerScope>) => string;

/** The SQL that selects a record. */
export interface Projection {
  /** The record's columns, named after its fields. */
  readonly columns: string;
  /** Returns the joins for joined fields, each starting with a space. */
  readonly joins: BoundSql;
  /** Whether the projection has joins. */
  readonly hasJoins: boolean;
  /** Returns only the columns and joins for these fields. */
  readonly only: (fields: readonly Field[]) => Pick<Projection, 'columns' | 'joins'>;
  /** The columns stored in the change log: all of the record's own fields except sensitive ones. */
  readonly loggedColumns: string;
  /**
   * SQL expression for the versions that determine the record's text: its own version and the versions of
   * joined records.
   */
  readonly versions: string;
  /** Returns `versions` without joins, for write preconditions. */
  readonly currentVersions: BoundSql;
  /** Identifies the projection. Definitions that represent the same row differently have different marks. */
  readonly mark: string;
}

/**
 * Returns the record's columns, named after its fields, and the joins for joined fields. Joins find only records that the
 * caller can read.
 * @param resources all resources as the caller sees them, by name
 * @param excerpt maximum length of text values, in characters; unlimited if undefined
 */
export function projection(
  { definition, stored }: VisibleResource,
  resources: ReadonlyMap<string, VisibleResource>,
  excerpt?: number,
): Projection {
  const links = new Map<string, Link>();
  const columns = new Map<string, string>();
  const values = new Map<string, string>();
  /** SQL expressions for the values of rollups. */
  const rollups: string[] = [];
  /** Columns of the change log that differ from those in responses. */
  const loggedColumns = new Map<string, string>();
  const isVisible = ({ name }: Field) => definition.fields.some((field) => field.name === name);
  const addColumn = (field: Field, sql: string) => {
    const isText = field.type.bounded === true || field.through !== undefined;
    const value = isText && excerpt !== undefined ? `left(${sql}, ${excerpt})` : sql;
    values.set(field.name, value);
    columns.set(field.name, `${value} as ${quote(field.name)}`);
  };
  for (const field of stored.fields) {
    const owner = field.aliasOf ?? field;
    if (isVisible(owner) && hidesReferences(owner, resources)) {
      const link = links.get(owner.name) ?? visibleReferences(owner, resources);
      links.set(owner.name, link);
      addColumn(field, owner.type.read?.([`${link.alias}."ids"`]) ?? '');
      loggedColumns.set(field.name, `${responseValueSql(owner)} as ${quote(field.name)}`);
      continue;
    }
    if (field.rollup !== undefined && field.aliasOf === undefined) {
      if (!isVisible(field)) continue;
      const isStored = isStoredRollup(field);
      const sql = isStored ? responseValueSql(field) : rollupValueSql(field, definition.name, resources);
      rollups.push(isStored ? column(field) : sql);
      addColumn(field, sql);
      continue;
    }
    if (field.type.custom === true) {
      const link = customValues(field, definition);
      links.set(field.name, link);
      addColumn(field, `${link.alias}."values"`);
      loggedColumns.set(field.name, `${loggedCustomSql(field, definition.name)} as ${quote(field.name)}`);
      continue;
    }
    // A field precedes its aliases.
    const aliasedValue = field.aliasOf && values.get(field.aliasOf.name);
    if (aliasedValue !== undefined || field.through === undefined) {
      addColumn(field, aliasedValue ?? responseValueSql(field));
      continue;
    }
    if (!isVisible(field)) continue;
    const link = definition.fields.find(({ name }) => name === field.through);
    const target = resources.get(link?.to ?? '');
    if (link === undefined || target === undefined) throw new Error(`${field.name} follows no reference`);
    const alias = quote(`via_${link.name}`);
    // The join is limited to the record's organization.
    const condition: BoundSql = ($) =>
      `${alias}."organization_id" = ${record}."organization_id" and ${alias}."id" = ${column(link)}${referenceLimitSql(target, $, alias)}`;
    // If a record refers to itself, the join would return the version before this statement's write.
    const version = (joinedVersion: string) =>
      target.definition.name === definition.name
        ? `case when ${column(link)} = ${record}."id" then ${versionOf(record)} else ${joinedVersion} end`
        : joinedVersion;
    links.set(link.name, {
      alias,
      from: () => `${quote(target.definition.name)} ${alias}`,
      condition,
      joinedVersion: versionOf(alias),
      version,
      isUsedBy: ({ through }) => through === link.name,
    });
    addColumn(field, joinedText(field, link, target.definition, definition, alias));
  }
  const only: Projection['only'] = (fields) => ({
    columns: fields.map(({ name }) => columns.get(name)).join(', '),
    joins: ($) =>
      [...links]
        .filter(([, { isUsedBy }]) => fields.some(isUsedBy))
        .map(([, { from, condition }]) => ` left join ${from($)} on ${condition($)}`)
        .join(''),
  });
  const joinedLinks = [...links.values()];
  const allColumns = only(definition.fields);
  return {
    ...allColumns,
    hasJoins: joinedLinks.length > 0,
    only,
    loggedColumns: stored.fields
      .filter(isLogged)
      .map((field) => loggedColumns.get(field.name) ?? columns.get(field.name))
      .join(', '),
    versions: versionsOf([
      ...joinedLinks.map(({ joinedVersion, version }) => version(joinedVersion)),
      ...rollups.map(valueVersion),
    ]),
    currentVersions: ($) =>
      versionsOf([
        ...joinedLinks.map(({ joinedVersion, from, condition, version }) =>
          version(`(select ${joinedVersion} from ${from($)} where ${condition($)})`),
        ),
        ...rollups.map(valueVersion),
      ]),
    mark: markOf({ columns: allColumns.columns, joins: allColumns.joins(() => '?') }, definition),
  };
}

/** Returns whether the change log stores a field's values. Joined values and rollups depend on other records. */
export const isLogged = ({ through, rollup, sensitive }: Field): boolean =>
  through === undefined && rollup === undefined && !sensitive;

/** Returns an SQL expression for a stored value in the form used in responses. */
export const responseValueSql = (field: Field): string =>
  field.type.read?.(
    field.computed === undefined ? fieldColumns(field).map((stored) => column(stored)) : [column(field)],
  ) ?? column(field);

/** A reference used by joined fields, or the references that the caller sees in a field. */
interface Link {
  readonly alias: string;
  readonly from: BoundSql;
  /** The condition that finds the referenced record. */
  readonly condition: BoundSql;
  /**
   * Returns an SQL expression for the referenced record's version.
   * @param joinedVersion SQL expression for the joined row's version
   */
  readonly version: (joinedVersion: string) => string;
  /** SQL expression for the joined row's version. */
  readonly joinedVersion: string;
  /** Returns whether a field's column needs the join. */
  readonly isUsedBy: (field: Field) => boolean;
}

/** Returns the join for a field of whose references the caller sees only some. The column "ids" contains these. */
function visibleReferences(field: Field, resources: ReadonlyMap<string, VisibleResource>): Link {
  const alias = quote(`via_${field.name}`);
  const stored = { ids: column(field), organization: `${record}."organization_id"` };
  return {
    alias,
    from: ($) => `lateral (select array(${visibleIdsSql(field, resources, $, stored)}) as "ids") ${alias}`,
    condition: () => 'true',
    // The text can change without a new version of the record, because scopes depend on the records referred to.
    joinedVersion: textVersion(`array_to_string(${alias}."ids", ',')`),
    version: (joinedVersion) => joinedVersion,
    isUsedBy: ({ name, aliasOf }) => (aliasOf?.name ?? name) === field.name,
  };
}

/** Returns an SQL expression for a version that depends only on a text. */
const textVersion = (text: string): string => `left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), 16)`;

/** Returns an SQL expression for the version of a value that can change without a new version of the record. */
const valueVersion = (value: string): string => textVersion(`${value}::text`);

/**
 * Returns the join for the field with the values of custom fields. The column "values" contains a value for each custom field
 * that is not deleted and that the caller sees.
 */
function customValues(field: Field, definition: ResourceDefinition): Link {
  const alias = quote(`via_${field.name}`);
  const value = `coalesce(${column(field)} -> _f."name", 'null')`;
  const values = `coalesce(jsonb_object_agg(_f."name", ${value}), '{}') as "values"`;
  const names = `coalesce(jsonb_object_agg(_f."name", null::text)::text, '') as "names"`;
  return {
    alias,
    from: () =>
      `lateral (select ${values}, ${names} ${fromCustomFields(definition.name, `${record}."organization_id"`)} and ${visibleCustomSql(fieldGroups(definition))}) ${alias}`,
    condition: () => 'true',
    // The text changes without a new version of the record if a custom field is created or deleted.
    joinedVersion: textVersion(`${alias}."names"`),
    version: (joinedVersion) => joinedVersion,
    isUsedBy: ({ name }) => name === field.name,
  };
}

/** Returns an SQL expression for the values of custom fields in the change log, which contains only values other than null. */
const loggedCustomSql = (field: Field, resource: string): string =>
  `(select coalesce(jsonb_object_agg(_f."name", ${column(field)} -> _f."name"), '{}') ${fromCustomFields(resource, `${record}."organization_id"`)} and jsonb_exists(${column(field)}, _f."name"))`;

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
    const texts = (field.show ?? []).flatMap((name) => {
      const shown = target.fields.find((targetField) => targetField.name === name);
      // The caller cannot read the field.
      if (shown === undefined) return [];
      const value = `${table}.${quote(name)}`;
      // The value is null if the record does not exist or its field is null.
      return [`coalesce(${shown.type.text?.(value) ?? value}, '')`];
    });
    if (texts.length === 0) return "''";
    return texts.length === 1 ? (texts[0] ?? '') : `btrim(${texts.join(` || ' ' || `)})`;
  };
  const joinedValue = textFrom(alias);
  // If a record refers to itself, the join would return the values before this statement's write.
  return target.name === definition.name
    ? `case when ${column(link)} = ${record}."id" then ${textFrom(record)} else ${joinedValue} end`
    : joinedValue;
}
