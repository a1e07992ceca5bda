import type { Generated } from 'kysely';
import type { ResourceDefinition } from '../definition/index.ts';
import { type Field, fieldTypes, type SequenceFormat } from '../fields/index.ts';
import { column, literal, type Placeholder, quote, record } from '../sql/index.ts';
import { bigintColumn, defineTable, identity, textColumn } from '../tables/index.ts';
import type { Assignment } from './assignments.ts';
import { organizationOf, type RowScope } from './rows.ts';

declare module '../tables/index.ts' {
  interface TableRows {
    crm_sequences: {
      organization_id: string;
      id: Generated<string>;
      /** The resource and its field, for example `tickets.number`. */
      field: string;
      /** The year in UTC in which the values count, or an empty string if they do not start again every year. */
      period: string;
      /** The last value. */
      value: string;
    };
  }
}

const sequences = defineTable(
  'crm_sequences',
  {
    organization_id: { ...bigintColumn, primary: true },
    id: identity,
    field: textColumn,
    period: textColumn,
    value: bigintColumn,
  },
  {
    // Not the primary key: after a rename, a trigger replaces the former name in rows that older nodes insert.
    uniques: [{ name: 'crm_sequences_field', properties: ['organization_id', 'field', 'period'] }],
  },
);

/** The table with the last value of each organization's sequences. */
export const sequenceTables = [sequences];

/** Returns the name of a field's sequence. */
export const sequenceName = (resource: string, field: string): string => `${resource}.${field}`;

/** Returns the fields whose values come from a sequence. */
export const sequenceFields = ({ fields }: Pick<ResourceDefinition, 'fields'>): readonly Field[] =>
  fields.filter(({ sequence, aliasOf }) => sequence !== undefined && aliasOf === undefined);

/** Values bound by a statement that creates records. */
export interface SequenceValues extends RowScope {
  /** Values from the sequences that a deleted record had and keeps when it is created again, by field name. */
  readonly sequenceValues?: Readonly<Record<string, string>> | undefined;
}

/** The rows from which a statement creates records. */
export interface NewRows {
  /** FROM clause item with a row for each record. */
  readonly source: string;
  /** SQL expression that orders the rows. */
  readonly order: string;
  /** Whether the rows can belong to several organizations. */
  readonly isShared?: boolean;
}

/** The SQL that takes values from a resource's sequences for new records. */
export interface CompiledSequences<P extends SequenceValues> {
  /**
   * Returns common table expressions, each followed by a comma, which lock the sequences of each organization in order and
   * reserve as many values as there are new records. The transaction that creates the records holds the locks, so that a
   * record that is not created leaves no gap.
   * @param guard a FROM clause item with at most one row, without which a single record is not created
   */
  readonly expressions: (placeholder: Placeholder<P>, rows?: NewRows, guard?: string) => string;
  /** Returns the assignments of the reserved values, which ascend in the order of the rows. */
  readonly assignments: (placeholder: Placeholder<P>, rows?: NewRows) => readonly Assignment[];
}

/** Compiles the sequences of a resource. @param fields the fields that get values from their sequences */
export function compileSequences<P extends SequenceValues>(
  resource: string,
  fields: readonly Field[],
): CompiledSequences<P> {
  const compiled = fields.flatMap(({ name, sequence }, index) =>
    sequence === undefined
      ? []
      : [
          {
            name,
            sequence,
            expression: `_sequence_${index}`,
            previous: ({ sequenceValues }: P) => sequenceValues?.[name] ?? null,
          },
        ],
  );
  return {
    expressions: ($, rows, guard) =>
      compiled
        .map(({ name, sequence, expression, previous }) => {
          const isNew =
            rows !== undefined && rows.isShared !== true ? undefined : `${$(previous)}::text is null`;
          return `${expression} as (${reserveSql({ resource, name, sequence }, $, isNew, rows, guard)}), `;
        })
        .join(''),
    assignments: ($, rows) =>
      compiled.map(({ name, sequence, expression, previous }) => ({
        column: quote(name),
        value: valueSql(expression, sequence, $, previous, rows),
      })),
  };
}

/** SQL expression for the current year in UTC. */
const year = `to_char(now() at time zone 'UTC', 'YYYY')`;

/** Returns an SQL expression for the text before or after the number. */
const textSql = (text: string): string => text.split('{year}').map(literal).join(` || ${year} || `);

/** Number of digits in the largest sequence values. */
const maxDigits = 18;

/** Returns an SQL expression for the formatted value. @param value SQL expression for an integer */
const formatSql = ({ prefix, digits, suffix }: SequenceFormat, value: string): string =>
  `${textSql(prefix)} || to_char(${value}, 'FM${'9'.repeat(maxDigits - digits)}${'0'.repeat(digits)}') || ${textSql(suffix)}`;

/** A field whose values come from a sequence. */
interface SequenceField {
  readonly resource: string;
  readonly name: string;
  readonly sequence: SequenceFormat;
}

/**
 * Returns the INSERT statement that reserves values. Without a row for the organization and period, it continues after the
 * largest value among the records, so that a field with values can get a sequence.
 * @param isNew SQL condition that a record does not keep a previous value
 */
function reserveSql<P extends SequenceValues>(
  { resource, name, sequence }: SequenceField,
  $: Placeholder<P>,
  isNew: string | undefined,
  rows: NewRows | undefined,
  guard: string | undefined,
): string {
  const organization = organizationOf($);
  const period = sequence.format.includes('{year}') ? year : `''`;
  const field = literal(sequenceName(resource, name));
  const where = isNew === undefined ? '' : ` where ${isNew}`;
  const [source, count, added] =
    rows === undefined
      ? [`${guard === undefined ? '' : ` from ${guard}`}${where}`, '1', '1']
      : rows.isShared === true
        ? [
            ` from ${rows.source}${where} group by ${organization.replace('::bigint', '')} order by ${organization}`,
            'count(*)',
            `(select count(*) from ${rows.source} where ${isNew} and ${organization} = excluded."organization_id")`,
          ]
        : [` from ${rows.source} having count(*) > 0`, 'count(*)', `(select count(*) from ${rows.source})`];
  const stored = `exists (select from "crm_sequences" _s where _s."organization_id" = ${organization} and _s."field" = ${field} and _s."period" = ${period})`;
  const start = `case when ${stored} then 0 else ${largestSql({ resource, name, sequence }, organization)} end`;
  return `insert into "crm_sequences" ("organization_id", "field", "period", "value") select ${organization}, ${field}, ${period}, ${start} + ${count}${source} on conflict ("organization_id", "field", "period") do update set "value" = "crm_sequences"."value" + ${added} returning "organization_id", "value"`;
}

/** Returns an SQL expression for the largest number among the values of the records in the same period. */
function largestSql({ resource, name, sequence }: SequenceField, organization: string): string {
  const [prefix, suffix] = [textSql(sequence.prefix), textSql(sequence.suffix)];
  const stored = column({ name });
  const digits = `substr(${stored}, length(${prefix}) + 1, length(${stored}) - length(${prefix}) - length(${suffix}))`;
  // The unique index, which contains only values that are not empty, finds the values with the prefix.
  const startsWith = `${stored} <> '' and ${fieldTypes.string.startsWith?.(stored, `(${prefix})`)}`;
  return `coalesce((select max(case when ${digits} ~ '^[0-9]{1,${maxDigits}}$' then (${digits})::bigint end) from ${quote(resource)} ${record} where ${record}."organization_id" = ${organization} and ${startsWith} and length(${stored}) > length(${prefix}) + length(${suffix}) and right(${stored}, length(${suffix})) = ${suffix}), 0)`;
}

/** Returns an SQL expression for a record's value. */
function valueSql<P extends SequenceValues>(
  expression: string,
  sequence: SequenceFormat,
  $: Placeholder<P>,
  previous: (input: P) => string | null,
  rows: NewRows | undefined,
): string {
  const last = `(select _c."value" from ${expression} _c`;
  if (rows === undefined) return `coalesce(${$(previous)}::text, ${formatSql(sequence, `${last})`)})`;
  const { source, order, isShared } = rows;
  if (isShared !== true) {
    const value = `${last}) - (select count(*) from ${source}) + row_number() over (order by ${order})`;
    return formatSql(sequence, value);
  }
  const organization = organizationOf($);
  const kept = `${$(previous)}::text`;
  const counted = (window: string) => `count(*) filter (where ${kept} is null) over (${window})`;
  const group = `partition by ${organization}`;
  const value = `${last} where _c."organization_id" = ${organization}) - ${counted(group)} + ${counted(`${group} order by ${order}`)}`;
  return `coalesce(${kept}, ${formatSql(sequence, value)})`;
}
