import type { Database } from '../database/index.ts';
import { errors, type FieldProblem, HttpError } from '../errors.ts';
import { type Query, wrong } from '../query/index.ts';
import { allows } from './access.ts';
import type { Body } from './body.ts';
import { csvLines } from './csv-lines.ts';
import { type FormatName, formatNames } from './formats.ts';
import { insistently } from './insistently.ts';
import { type Line, type Lines, ndjsonLines } from './lines.ts';
import type { Caller, DescribedResource, OperationContext, OperationDescription } from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { commonParameters, refuse } from './requests.ts';
import { type ImportWrites, type Wish, type Written, writeMany } from './write-many.ts';

/** What an import is asked for. */
export interface ImportRequest {
  readonly caller: Caller;
  readonly query: Query;
  /** `Prefer: handling=strict`. */
  readonly strict: boolean;
  readonly format: FormatName;
}

/** A validated request to import. */
export interface ImportPlan extends ImportWrites {
  readonly format: FormatName;
  /** Whether it ends at the first line that fails. */
  readonly stops: boolean;
}

/** A line that failed. */
export interface FailedLine {
  readonly line: number;
  readonly error: string;
  readonly code: string;
  readonly fields?: readonly FieldProblem[];
}

/** What became of an import. */
export interface ImportReport {
  readonly created: number;
  readonly updated: number;
  readonly failed: number;
  /** Whether it ended at a line that failed: the lines before that one are written, it and all after it are not. */
  readonly stopped: boolean;
  readonly dry_run: boolean;
  /** Columns of CSV that are no writable field. */
  readonly ignored: readonly string[];
  /** The first lines that failed, see {@link maxReported}. */
  readonly lines: readonly FailedLine[];
  /** Whether more lines failed than `lines` has. */
  readonly truncated: boolean;
}

/** Lines that one statement writes, and bytes of them, at most. */
const [maxLines, maxBytes] = [1000, 4 * 1024 * 1024];
/** Failed lines that a report has at most. */
const maxReported = 1000;
const parameters = ['match', 'on_error', 'dry_run'];

/** Imports into one resource. */
export interface Import {
  /** @throws HttpError 400 with everything that is wrong with the parameters; 403 if it may not update what matches */
  readonly plan: (request: ImportRequest) => ImportPlan;
  /**
   * Writes the records of a body, up to 1,000 with each statement, in their order.
   * @param onProgress called after each statement with the lines done so far
   * @throws HttpError if the body cannot be read or the database fails; its `extra.report` says what is written
   */
  readonly run: (
    database: Database,
    plan: ImportPlan,
    source: AsyncIterable<Buffer>,
    onProgress?: (lines: number) => void,
  ) => Promise<ImportReport>;
}

/** `POST /R/import`: new records from a body of any length, or with `match` new and changed ones. */
export const imports = {
  method: 'POST',
  path: '/import',
  action: 'create',
  status: 200,
  formats: formatNames,
  compile: (context: OperationContext, operations: CompiledOperations): Import => ({
    plan: (request) => planOf(context, request),
    run: async (database, plan, source, onProgress = () => {}) => {
      const { format, strict, caller } = plan;
      const { fields } = context.definition;
      const lines = format === 'csv' ? csvLines(source, fields, strict) : ndjsonLines(source);
      const write = writeMany(database, operations, plan);
      return database.admission.run('stream', caller.principal.organization, () =>
        importLines(lines, plan, (bodies, wish) => insistently(() => write(bodies, wish)), onProgress),
      );
    },
  }),
  describe: ({ definition, pluralName }: DescribedResource): OperationDescription => ({
    operationId: `import${pluralName}`,
    summary: `Import ${definition.name.replaceAll('_', ' ')}`,
    parameters: described,
    body: {
      description:
        'Records as CSV, whose first line has the names of fields, or as JSON objects, one on each line. May be compressed with gzip.',
      schema: 'Lines',
    },
    success: { description: 'What became of the lines.', schema: 'ImportReport' },
  }),
} as const;

const described = [
  {
    name: 'match',
    in: 'query',
    description:
      'Unique fields, separated by commas: a record that is there with the same values is changed as by PATCH. Needs the grant update as well.',
    schema: { type: 'string' },
  },
  {
    name: 'on_error',
    in: 'query',
    description:
      '`continue` writes all lines that can be written; `stop` ends at the first one that fails: those before it are written.',
    schema: { type: 'string', enum: ['continue', 'stop'], default: 'continue' },
  },
  {
    name: 'dry_run',
    in: 'query',
    description: '`true` validates all lines, also what they refer to, and writes nothing.',
    schema: { type: 'boolean', default: false },
  },
];

function planOf({ definition }: OperationContext, { query, ...rest }: ImportRequest): ImportPlan {
  const problems: FieldProblem[] = rest.strict
    ? Object.keys(query)
        .filter((name) => ![...commonParameters, ...parameters].includes(name))
        .map((name) => wrong(name, 'is not a parameter of this operation'))
    : [];
  const { match, on_error: onError = 'continue', dry_run: dryRun = 'false' } = query;
  if (onError !== 'continue' && onError !== 'stop')
    problems.push(wrong('on_error', 'must be continue or stop'));
  if (dryRun !== 'true' && dryRun !== 'false') problems.push(wrong('dry_run', 'must be true or false'));
  if (Array.isArray(match)) problems.push(wrong('match', 'must be given once'));
  refuse(problems);
  if (match !== undefined && !allows(rest.caller.principal.grants, definition.name, 'update'))
    throw errors.forbidden(definition.name, 'update');
  return {
    ...rest,
    match: typeof match === 'string' ? match.split(',') : undefined,
    stops: onError === 'stop',
    isTrial: dryRun === 'true',
  };
}

/** Writes lines in their order, as many with each statement as it takes. */
async function importLines(
  lines: Lines,
  plan: ImportPlan,
  write: (bodies: readonly Body[], wish: Wish) => Promise<readonly Written[]>,
  onProgress: (lines: number) => void,
): Promise<ImportReport> {
  const counts = { created: 0, updated: 0, failed: 0 };
  const failures: FailedLine[] = [];
  let batch: Line[] = [];
  let size = 0;
  let done = 0;
  let stopped = false;

  const fail = (line: number, { message, code, extra }: HttpError): void => {
    counts.failed++;
    const { fields } = extra;
    if (failures.length < maxReported)
      failures.push({ line, error: message, code, ...(fields && { fields }) });
  };
  const flush = async (): Promise<void> => {
    const taken = batch;
    batch = [];
    size = 0;
    const results = plan.stops ? await writeUntilFailure(taken) : await writeEach(taken);
    for (const [index, { number }] of taken.entries()) {
      const result = results[index];
      if (result === undefined) break;
      done++;
      if (!(result instanceof HttpError)) counts[result]++;
      else fail(number, result);
    }
    stopped = plan.stops && counts.failed > 0;
    onProgress(done);
  };
  /** The result of each line. */
  const writeEach = async (taken: readonly Line[]): Promise<readonly Written[]> => {
    const bodies = taken.flatMap(({ record }) => (record instanceof HttpError ? [] : [record]));
    const written = bodies.length === 0 ? [] : await write(bodies, 'each');
    let next = 0;
    return taken.map(({ record }) => (record instanceof HttpError ? record : (written[next++] as Written)));
  };
  /** The results up to the first failure, which is the last one then. */
  const writeUntilFailure = async (taken: readonly Line[]): Promise<readonly Written[]> => {
    const unreadable = taken.findIndex(({ record }) => record instanceof HttpError);
    const readable = unreadable === -1 ? taken : taken.slice(0, unreadable);
    const failure = taken[unreadable]?.record;
    if (readable.length === 0) return failure instanceof HttpError ? [failure] : [];
    const bodies = readable.map(({ record }) => record as Body);
    const results = await write(bodies, 'all');
    const first = results.findIndex((result) => result instanceof HttpError);
    if (first === -1) return failure instanceof HttpError ? [...results, failure] : results;
    // Nothing was written: those before the failure are, without it.
    const before = await writeUntilFailure(readable.slice(0, first));
    return before.length < first ? before : [...before, results[first] as HttpError];
  };
  const report = (): ImportReport => ({
    ...counts,
    stopped,
    dry_run: plan.isTrial,
    ignored: lines.ignored,
    lines: failures,
    truncated: failures.length < counts.failed,
  });

  try {
    for await (const some of lines) {
      for (const line of some) {
        batch.push(line);
        size += line.size;
        if (batch.length < maxLines && size < maxBytes) continue;
        await flush();
        if (stopped) return report();
      }
    }
    if (batch.length > 0) await flush();
    return report();
  } catch (cause) {
    if (!(cause instanceof HttpError) || done === 0) throw cause;
    const { status, code, message, extra } = cause;
    throw new HttpError(status, code, message, { ...extra, report: report() }, { cause: cause.cause });
  }
}
