import type { ResourceDefinition } from '../definition/index.ts';
import { columnsOf, type Field } from '../fields/index.ts';
import { column, quote, record } from '../sql/index.ts';

/** What a statement selects to return a record. */
export interface Projection {
  /** The record's columns, named like its fields. */
  readonly columns: string;
  /** The joins that joined fields need; each begins with a space. */
  readonly joins: string;
}

/** The record as columns named like its fields, and the joins that joined fields need. */
export function projection(definition: ResourceDefinition, all: readonly ResourceDefinition[]): Projection {
  const links = new Map<string, string>();
  const columns = definition.fields.map((field) => {
    if (field.through === undefined) {
      const sql = field.type.read?.(columnsOf(field).map(column)) ?? column(field);
      return `${sql} as ${quote(field.name)}`;
    }
    const link = definition.fields.find(({ name }) => name === field.through);
    const target = all.find(({ name }) => name === link?.to);
    if (link === undefined || target === undefined) throw new Error(`${field.name} follows no reference`);
    const alias = quote(`via_${link.name}`);
    // Bound to the organization by the record that it is joined to.
    links.set(
      link.name,
      ` left join ${quote(target.name)} ${alias} on ${alias}."organization_id" = ${record}."organization_id" and ${alias}."id" = ${column(link)}`,
    );
    return `${joinedText(field, link, target, definition, alias)} as ${quote(field.name)}`;
  });
  return { columns: columns.join(', '), joins: [...links.values()].join('') };
}

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
      // Null if there is no such record, or if that record's field is null.
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
