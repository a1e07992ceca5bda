import type { Layout } from '../sql/index.ts';

/** A format for many records, other than JSON. */
interface Format {
  /** Media type without parameters. */
  readonly type: string;
  /** How records are serialized. */
  readonly layout: Exclude<Layout, 'array'>;
  /** Returns the line before the first record, if the format has one. */
  readonly head?: (names: readonly string[]) => string;
}

/** All formats by name. The command line uses the same names. */
const formats = {
  csv: { type: 'text/csv', layout: 'csv', head: (names) => `${names.join(',')}\r\n` },
  ndjson: { type: 'application/x-ndjson', layout: 'ndjson' },
} as const satisfies Readonly<Record<string, Format>>;

export type FormatName = keyof typeof formats;

export const formatNames = Object.keys(formats) as FormatName[];

/** Returns the format with this name. */
export const formatOf = (name: FormatName): Format => formats[name];

/**
 * Returns the format with this media type, or undefined if it is unknown.
 * @param type the media type in lower case, without parameters
 */
export const formatOfType = (type: string): FormatName | undefined =>
  formatNames.find((name) => formats[name].type === type);
