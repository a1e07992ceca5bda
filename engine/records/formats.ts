import type { Layout } from '../sql/index.ts';

/** A format, other than JSON, in which many records are sent and taken. */
export interface Format {
  /** Its media type, without parameters. */
  readonly type: string;
  /** How its records are written. */
  readonly layout: Exclude<Layout, 'array'>;
  /** The line before the first record; absent: none. */
  readonly head?: (names: readonly string[]) => string;
}

/** Every format by its name, which the command line uses too. */
export const formats = {
  csv: { type: 'text/csv', layout: 'csv', head: (names) => `${names.join(',')}\r\n` },
  ndjson: { type: 'application/x-ndjson', layout: 'ndjson' },
} as const satisfies Readonly<Record<string, Format>>;

export type FormatName = keyof typeof formats;

export const formatNames = Object.keys(formats) as FormatName[];

/** A format by its name, whichever it is. */
export const formatOf = (name: FormatName): Format => formats[name];

/** The format of a media type; undefined for all others. @param type in lower case, without parameters */
export const formatOfType = (type: string): FormatName | undefined =>
  formatNames.find((name) => formats[name].type === type);
