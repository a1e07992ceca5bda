import type { ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { Field } from '../../../engine/fields/index.ts';
import { type CallerScope, type Principal, visibleSql } from '../../../engine/records/index.ts';
import { arrayText, column, literal, prepare, quote, record } from '../../../engine/sql/index.ts';

/** The records with one value. */
export interface BoardTotal {
  readonly count: number;
  /** The sum of a numeric field as an exact decimal string; null if no record has a value. */
  readonly sum: string | null;
}

/** Returns the field that a board adds up: the first decimal number. */
export const summedField = ({ definition }: Pick<ResourceView, 'definition'>): Field | undefined =>
  definition.fields.find(({ type, aliasOf }) => type.operand === 'number' && aliasOf === undefined);

/**
 * Counts the records that a member can list, by a field's known value. All other values are counted together, because their
 * number is not limited.
 * @returns the totals by value, or undefined if counting takes too long
 */
export async function boardTotals(
  database: Database,
  resource: ResourceView,
  principal: Principal,
  field: Field,
): Promise<ReadonlyMap<string, BoardTotal> | undefined> {
  const summed = summedField(resource);
  const statement = prepare<CallerScope>('', 'scan', ($) => {
    const sum = summed === undefined ? 'null' : `sum(${column(summed)})::text`;
    const known = literal(arrayText(field.values?.list ?? []));
    const value = `case when ${column(field)} = any(${known}::text[]) then ${column(field)} end`;
    return `select ${value}, count(*)::text, ${sum} from ${quote(resource.name)} ${record} where ${visibleSql(resource.context, 'list', $)} group by 1`;
  });
  const { organization } = principal;
  try {
    const rows = await database.run(statement.bind({ organization, caller: { principal } }), {
      organization,
      access: 'read',
    });
    return new Map(
      rows.map(([value, count, sum]) => [
        String(value ?? ''),
        { count: Number(count), sum: sum === null || sum === undefined ? null : String(sum) },
      ]),
    );
  } catch {
    // Totals must not prevent the page from loading.
    return undefined;
  }
}

/**
 * Returns the sums of a board's columns as texts with the same number of decimal places. A sum is undefined if the column has no
 * values.
 * @param values the values of the columns
 * @param summed the field that is added up
 */
export function sumTexts(
  totals: ReadonlyMap<string, BoardTotal>,
  values: readonly string[],
  summed: Field | undefined,
  locale: string,
): readonly (string | undefined)[] {
  const sums = alignedDecimals(values.map((value) => totals.get(value)?.sum ?? null));
  return sums.map((sum) =>
    summed === undefined || sum === null ? undefined : (summed.type.display?.(sum, locale) ?? sum),
  );
}

/** Pads decimal numbers with zeros, so that they have the same number of decimal places. */
function alignedDecimals(values: readonly (string | null)[]): readonly (string | null)[] {
  const placesOf = (value: string | null) => (value?.split('.')[1] ?? '').length;
  const places = Math.max(0, ...values.map(placesOf));
  return values.map((value) =>
    value === null || places === 0
      ? value
      : `${value}${value.includes('.') ? '' : '.'}${'0'.repeat(places - placesOf(value))}`,
  );
}
