import { type HttpError, reasonKey } from '../../../engine/errors.ts';
import type { ImportSummary } from '../../../engine/records/index.ts';
import { maxResult } from '../../jobs/index.ts';
import { apiMessageIn, type Language, type Text } from '../shell/index.ts';
import { safeCell } from './csv-cells.ts';
import type { DataRequest } from './routes.ts';
import { type RecordsText, recordsTexts } from './texts/index.ts';

/** Maximum number of lines with errors on a page. */
const maxReportedLines = 50;

/** The result of an import in the background. */
export interface ImportResult extends ImportSummary {
  /** The transaction in which the import wrote all its records, if the import can be undone. */
  readonly transaction?: string;
  /** Whether the import was undone. */
  readonly undone?: boolean;
}

/** Property of stored errors that contains their reason, whose own key is a symbol. */
const reasonProperty = '$reason';

/** Serializes a value with the reasons of errors, so that their messages can be translated later. */
const storedJson = (value: unknown): string =>
  JSON.stringify(value, (_name, part: unknown) => {
    // The cause of an internal error is only logged.
    if (part instanceof Error) return undefined;
    return typeof part === 'object' && part !== null && reasonKey in part && part[reasonKey] !== undefined
      ? { ...part, [reasonProperty]: part[reasonKey] }
      : part;
  });

/** Parses a value that {@link storedJson} has serialized. */
const parseStored = (json: string): unknown =>
  JSON.parse(json, (_name, part: unknown) => {
    if (typeof part !== 'object' || part === null || !(reasonProperty in part)) return part;
    const { [reasonProperty]: reason, ...others } = part;
    return { ...others, [reasonKey]: reason };
  });

/** Returns the result of an import as JSON of at most {@link maxResult} characters, with as many lines with errors as fit. */
export function importResultJson({ lines, ...counts }: ImportResult): string {
  const complete = JSON.stringify({ ...counts, lines: [] });
  const stored: string[] = [];
  let length = complete.length + 'true'.length;
  for (const line of lines) {
    const json = storedJson(line);
    length += json.length + 1;
    if (length > maxResult) break;
    stored.push(json);
  }
  const head = JSON.stringify({ ...counts, truncated: counts.truncated || stored.length < lines.length });
  return `${head.slice(0, -1)},"lines":[${stored.join()}]}`;
}

/** Returns the result of an import, or undefined if it does not exist or was erased. */
export const parseImportResult = (json: string): ImportResult | undefined =>
  json === '' ? undefined : (parseStored(json) as ImportResult);

/** Serializes the error of an import for {@link importErrorIn}. */
export const importErrorJson = (error: HttpError): string => {
  const { message, status, extra, [reasonKey]: reason } = error;
  return storedJson({ message, status, fields: extra.fields, more: extra.more, [reasonKey]: reason });
};

/** Returns the message of an import's error in a language. */
export const importErrorIn = (json: string, language: Language): Text =>
  apiMessageIn(parseStored(json) as Parameters<typeof apiMessageIn>[0], language);

/** Returns a sentence with the number of records that an import has written. */
export const writtenText = ({ created, updated }: ImportSummary, t: RecordsText): Text =>
  updated === 0
    ? t('records', { count: created })
    : t('newAndUpdated', {
        created: t('newRecords', { count: created }),
        updated: t('updatedRecords', { count: updated }),
      });

/** Sends the lines with errors as a CSV file. */
export function sendErrors({ reply, resource, language }: DataRequest, summary: ImportSummary): string {
  reply.header('content-type', 'text/csv; charset=utf-8; header=present');
  reply.header('content-disposition', `attachment; filename="${resource.name}-errors.csv"`);
  return errorsCsv(summary, language);
}

/** Returns the lines with errors as CSV. */
const errorsCsv = ({ lines }: ImportSummary, language: Language): string => {
  const rows = lines.map((line) => `${line.line},${safeCell(lineMessage(line, language))}`);
  return ['line,error', ...rows, ''].join('\r\n');
};

/** Returns why a line was rejected. */
const lineMessage = ({ error, ...line }: ImportSummary['lines'][number], language: Language): Text =>
  apiMessageIn({ message: error, ...line }, language);

/** Returns the report lines for a checked or imported file. */
export function reportLines(
  { created, updated, failed, dry_run, ignored, lines, truncated }: ImportSummary,
  language: Language,
): string[] {
  const t = recordsTexts(language);
  const counts = [
    dry_run ? t('recordsToCreate', { count: created }) : t('recordsCreated', { count: created }),
    ...(updated > 0
      ? [dry_run ? t('recordsToUpdate', { count: updated }) : t('recordsUpdated', { count: updated })]
      : []),
    t('linesWithErrors', { count: failed }),
  ];
  return [
    `${counts.join(', ')}.`,
    ...(ignored.length > 0 ? [t('ignoredColumns', { columns: ignored.join(', ') })] : []),
    ...lines
      .slice(0, maxReportedLines)
      .map((line) => t('lineError', { line: String(line.line), error: lineMessage(line, language) })),
    ...(truncated || lines.length > maxReportedLines ? [t('moreErrors')] : []),
  ];
}
