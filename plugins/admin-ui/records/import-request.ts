import { Readable } from 'node:stream';
import type { Delimiter } from '../../../engine/records/index.ts';
import { internalName } from '../../jobs/index.ts';
import { unescapeFormulas } from './csv-cells.ts';
import { slicesOf } from './import-file.ts';

/** Name of the jobs that import records. */
export const importJob = internalName('import');

/** A CSV file to import, with the user's options. */
export interface ImportRequest {
  /** The CSV text in UTF-8. */
  readonly bytes: Buffer;
  readonly delimiter: Delimiter;
  /** Names of the unique fields that identify existing records; undefined if all records are new. */
  readonly match: readonly string[] | undefined;
  /** The fields that the file's columns contain, by the columns' names. */
  readonly columns: ReadonlyMap<string, string>;
}

/** Returns the actions that an import requires. */
export const actionsOfImport = ({ match }: Pick<ImportRequest, 'match'>) =>
  match === undefined ? (['create'] as const) : (['create', 'update'] as const);

/** The input of the job. */
interface JobInput extends Pick<ImportRequest, 'delimiter' | 'match'> {
  /** The file as text, so that erasures find the people in it. */
  readonly csv: string;
  readonly columns: readonly (readonly [column: string, field: string])[];
}

/** Returns the input of a job that imports a file, as JSON. */
export const importInputJson = ({ bytes, columns, ...options }: ImportRequest): string =>
  JSON.stringify({ ...options, columns: [...columns], csv: bytes.toString() } satisfies JobInput);

/** Parses the input of a job. */
export function parseImportInput(json: string): ImportRequest {
  const { csv, columns, ...options } = JSON.parse(json) as JobInput;
  return { ...options, columns: new Map(columns), bytes: Buffer.from(csv) };
}

/** Returns a file's text as a stream, without the apostrophes of exported files. */
export const csvSource = ({ bytes, delimiter }: Pick<ImportRequest, 'bytes' | 'delimiter'>): Readable =>
  Readable.from(slicesOf(bytes)).pipe(unescapeFormulas(delimiter));
