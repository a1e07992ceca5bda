import { parse } from 'csv-parse/sync';
import type { Field } from '../fields/index.ts';
import { nearest } from '../yaml/index.ts';
import { type Delimiter, delimiters, maxCells } from './line-parsers.ts';

/** Maximum number of characters to read for a preview. */
const maxText = 32 * 1024;

/** The start of a CSV file. */
export interface CsvPreview {
  readonly delimiter: Delimiter;
  /** Names of the columns. */
  readonly header: readonly string[];
  /** The first records after the header, as cells. */
  readonly records: readonly (readonly string[])[];
}

/**
 * Returns the columns and the first records of a CSV file. The delimiter is the one with which the header has the most cells.
 * Returns undefined if the start of the text is not CSV.
 * @param bytes the file in UTF-8, of which only the start is read
 * @param maxRecords maximum number of records after the header
 */
export function previewCsv(bytes: Buffer, maxRecords: number): CsvPreview | undefined {
  const start = bytes
    .subarray(0, 2 * maxText)
    .toString()
    .slice(0, maxText);
  const previews = (Object.keys(delimiters) as Delimiter[]).flatMap((delimiter) => {
    const [header, ...records] = read(start, delimiter, maxRecords + 1) ?? read(start, delimiter, 1) ?? [];
    return header === undefined ? [] : [{ delimiter, header, records }];
  });
  return previews.sort((a, b) => b.header.length - a.header.length)[0];
}

/** Returns the first records of a text, or undefined if it is not CSV or is cut off within them. */
function read(text: string, delimiter: Delimiter, count: number): readonly (readonly string[])[] | undefined {
  try {
    return parse(text, {
      bom: true,
      delimiter: delimiters[delimiter],
      cast: (cell, { index }) => {
        if (index >= maxCells) throw new RangeError('too many columns');
        return cell;
      },
      relax_column_count: true,
      skip_empty_lines: true,
      to: count,
    });
  } catch {
    return undefined;
  }
}

/**
 * Returns the field that each column probably contains, by the column's name: the field with the same name or label, with the same
 * other name, or else with a similar name. Columns without such a field are mapped to an empty name. A field is used at most once.
 * @param fields writable fields, with the labels that people know and the names that other programs use
 */
export function guessColumns(
  header: readonly string[],
  fields: readonly (Pick<Field, 'name' | 'label'> & { readonly otherNames?: readonly string[] })[],
): ReadonlyMap<string, string> {
  const byWords = new Map(
    fields.flatMap(({ name, label = name }) =>
      [name, label].map((words) => [plainName(words), name] as const),
    ),
  );
  const byOtherName = new Map(
    fields.flatMap(({ name, otherNames = [] }) =>
      otherNames.map((words) => [plainName(words), name] as const),
    ),
  );
  const guesses = new Map<string, string>();
  const used = new Set<string>();
  const assign = (guessOf: (column: string) => string | undefined) => {
    for (const column of header) {
      const name = guesses.has(column) ? undefined : guessOf(column);
      if (name === undefined || used.has(name)) continue;
      guesses.set(column, name);
      used.add(name);
    }
  };
  assign((column) => byWords.get(plainName(column)));
  assign((column) => byOtherName.get(plainName(column)));
  // Comparing names takes time that grows with their number and length.
  const compared = new Set(header.filter(({ length }) => length <= maxComparedLength).slice(0, maxCompared));
  const candidates = [...byWords.keys()];
  assign((column) => {
    const words = compared.has(column) ? nearest(column, candidates) : undefined;
    return words === undefined ? undefined : byWords.get(words);
  });
  return new Map(header.map((column) => [column, guesses.get(column) ?? '']));
}

/** Maximum number and length of the column names that are compared with similar names. */
const [maxCompared, maxComparedLength] = [100, 60];

/** Returns a name's letters and digits in lowercase. */
export const plainName = (name: string): string => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, '');
