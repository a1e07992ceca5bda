import { createHash } from 'node:crypto';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldColumns } from '../fields/index.ts';
import { column, quote, record, versionColumn } from '../sql/index.ts';

/** What a statement selects to return a record. */
export interface Projection {
  /** The record's columns, named like its fields. */
  readonly columns: string;
  /** The joins required by joined fields; each starts with a space. */
  readonly joins: string;
  /** Returns the columns of some fields, and the joins they need. */
  readonly only: (fields: readonly Field[]) => Pick<Projection, 'columns' | 'joins'>;
  /** The columns stored in the change log: the record's own fields without sensitive ones. */
  readonly kept: string;
  /** SQL text of the versions that determine the record's text: its own and those of joined records. */
  readonly versions: string;
  /** The same without the joins, for conditions of a write. */
  readonly currentVersions: string;
  /** Identifies the projection: definitions that return the same row differently have different marks. */
  readonly mark: string;
}

/**
 * The record as columns named like its fields, and the joins that joined fields need.
 * @param excerpt maximum characters of each text; all if undefined
 */
export function projection(
  definition: ResourceDefinition,
  all: readonly ResourceDefinition[],
  excerpt?: number,
): Projection {
  const links = new Map<string, Link>();
  const columns = new Map<string, string>();
  const values = new Map<string, string>();
  const show = (field: Field, whole: string) => {
    const isText = field.type.bounded === true || field.through !== undefined;
    const value = isText && excerpt !== undefined ? `left(${whole}, ${excerpt})` : whole;
    values.set(field.name, value);
    columns.set(field.name, `${value} as ${quote(field.name)}`);
  };
  for (const field of definition.fields) {
    // Fields come before what shows their values under another name.
    const aliased = field.aliasOf && values.get(field.aliasOf.name);
    if (aliased !== undefined || field.through === undefined) {
      show(field, aliased ?? responseValueSql(field));
      continue;
    }
    const link = definition.fields.find(({ name }) => name === field.through);
    const target = all.find(({ name }) => name === link?.to);
    if (link === undefined || target === undefined) throw new Error(`${field.name} follows no reference`);
    const alias = quote(`via_${link.name}`);
    // Bound to the organization by the record that it is joined to.
    const same = `${alias}."organization_id" = ${record}."organization_id" and ${alias}."id" = ${column(link)}`;
    // A record that refers to itself has the version that this statement writes; the join cannot see that yet.
    const version = (joined: string) =>
      target.name === definition.name
        ? `case when ${column(link)} = ${record}."id" then ${versionOf(record)} else ${joined} end`
        : joined;
    links.set(link.name, { alias, from: `${quote(target.name)} ${alias}`, same, version });
    show(field, joinedText(field, link, target, definition, alias));
  }
  const only: Projection['only'] = (fields) => ({
    columns: fields.map(({ name }) => columns.get(name)).join(', '),
    joins: [...links]
      .filter(([name]) => fields.some(({ through }) => through === name))
      .map(([, { from, same }]) => ` left join ${from} on ${same}`)
      .join(''),
  });
  const followed = [...links.values()];
  const shown = only(definition.fields);
  return {
    ...shown,
    only,
    kept: only(definition.fields.filter(isLogged)).columns,
    versions: versionsOf(followed.map(({ alias, version }) => version(versionOf(alias)))),
    currentVersions: versionsOf(
      followed.map(({ alias, from, same, version }) =>
        version(`(select ${versionOf(alias)} from ${from} where ${same})`),
      ),
    ),
    mark: markOf(shown, definition),
  };
}

/** Returns whether the change log stores a field's values. Joined values belong to other records. */
export const isLogged = ({ through, sensitive }: Field): boolean => through === undefined && !sensitive;

/** Returns SQL of a stored value as returned in responses. */
export const responseValueSql = (field: Field): string =>
  field.type.read?.(fieldColumns(field).map(column)) ?? column(field);

/** A reference followed by joined fields. */
interface Link {
  readonly alias: string;
  readonly from: string;
  /** The condition that finds the referenced record. */
  readonly same: string;
  /** SQL of its version, from SQL of the joined one. */
  readonly version: (joined: string) => string;
}

const versionOf = (alias: string) => `${alias}.${quote(versionColumn)}`;

/** SQL of the versions of the record and of joined ones, separated by dots; empty if a record does not exist. */
const versionsOf = (joined: readonly string[]): string =>
  [`${versionOf(record)}::text`, ...joined.map((version) => `coalesce((${version})::text, '')`)].join(
    ` || '.' || `,
  );

/** The columns' types belong to it: the same SQL shows a column of another type differently. */
const markOf = (shown: object, { fields }: ResourceDefinition): string =>
  createHash('sha256')
    .update(JSON.stringify([shown, fields.flatMap(fieldColumns)]))
    .digest('hex')
    .slice(0, 8);

/** The text that a joined field shows: one field as it is, several with one space between, trimmed. */
function joinedText(
  field: Field,
  link: Field,
  target: ResourceDefinition,
  definition: ResourceDefinition,
  alias: string,
): string {
  const textFrom = (table: string) => {
    const texts = (field.show ?? []).map((name) => {
      const text = target.fields.find((each) => each.name === name)?.type.text;
      const shown = `${table}.${quote(name)}`;
      // Null if the record does not exist or its field is null.
      return `coalesce(${text?.(shown) ?? shown}, '')`;
    });
    return texts.length === 1 ? (texts[0] ?? "''") : `btrim(${texts.join(` || ' ' || `)})`;
  };
  const joined = textFrom(alias);
  // A record that refers to itself must show what this statement writes; the join cannot see that yet.
  return target.name === definition.name
    ? `case when ${column(link)} = ${record}."id" then ${textFrom(record)} else ${joined} end`
    : joined;
}
