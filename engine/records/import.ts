import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../database/index.ts';
import { type ErrorCode, errors, HttpError } from '../errors.ts';
import { parameterIssue, type Query } from '../query/index.ts';
import { type Action, allows } from './access.ts';
import { aliasesOf } from './aliases.ts';
import { type FormatName, formatNames } from './formats.ts';
import { type ImportSummary, type ImportWrites, importLines, keysOf, writeMany } from './import-lines.ts';
import { csvLines, ndjsonLines } from './lines.ts';
import type { Caller, DescribedResource, OperationContext, OperationDescription } from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { commonParameters, rejectRequest, unknownParameters } from './requests.ts';

/**
 * Codes of errors after which a statement, which did not run or was rolled back, can succeed a little later.
 */
const transientCodes: readonly ErrorCode[] = ['overloaded', 'too_slow'];
const maxTries = 5;
const firstPauseMs = 250;

/**
 * Runs one step of long work and retries it with backoff if the database is busy, so that the previous steps
 * are not lost.
 */
async function retryWhenBusy<T>(work: () => Promise<T>, tries = 1): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof HttpError && transientCodes.includes(cause.code)) || tries === maxTries)
      throw cause;
  }
  await pause(firstPauseMs * 2 ** (tries - 1));
  return retryWhenBusy(work, tries + 1);
}

/** Options of an import. */
export interface ImportOptions extends Partial<Omit<ImportWrites, 'caller'>> {}

/** The input of an import. */
interface ImportInput extends ImportOptions {
  readonly caller: Caller;
  readonly format: FormatName;
}

/** A validated import. */
interface ImportPlan extends ImportWrites {
  readonly format: FormatName;
}

const parameters = ['match', 'on_error', 'dry_run'];

/** Callbacks of an import. */
interface ImportObserver {
  /** Called after each statement with the number of processed lines. */
  readonly onProgress?: (lines: number) => void;
  /** Called before each statement; the import stops if it rejects. */
  readonly assertAllowed?: () => Promise<void>;
}

/** The import operation of a resource. */
interface Import {
  /** Parses the options in query parameters. @throws HttpError 400 with all invalid parameters */
  readonly options: (query: Query, strict: boolean) => ImportOptions;
  /** Validates the input. @throws HttpError 403 if the caller cannot update matching records */
  readonly plan: (input: ImportInput) => ImportPlan;
  /**
   * Writes the records of a body in order, up to 1,000 per statement.
   * @throws HttpError if the body cannot be read, access was revoked or the database fails; `extra.report`
   * contains the results up to the failure
   */
  readonly run: (
    database: Database,
    plan: ImportPlan,
    source: AsyncIterable<Buffer>,
    observer?: ImportObserver,
  ) => Promise<ImportSummary>;
}

/**
 * `POST /R/import`: creates records from a body of any length. With `match`, also updates existing records.
 */
const imports = {
  method: 'POST',
  path: '/import',
  action: 'create',
  status: 200,
  formats: formatNames,
  compile: (
    context: OperationContext,
    operations: CompiledOperations,
    aliases = aliasesOf(context.definition),
  ): Import => ({
    options: (query, strict) => optionsOf(aliases ? aliases.query(query) : query, strict),
    plan: ({ strict = false, match, stops = false, isDryRun = false, ...rest }) => {
      const { name } = context.definition;
      if (match !== undefined && !allows(rest.caller.principal.grants, name, 'update'))
        throw errors.forbidden(name, 'update');
      return { ...rest, strict, match: aliases ? match?.map(aliases.name) : match, stops, isDryRun };
    },
    run: async (database, plan, source, { onProgress = () => {}, assertAllowed = async () => {} } = {}) => {
      const { format, strict, caller } = plan;
      const { fields } = context.definition;
      const lines =
        format === 'csv'
          ? csvLines(source, fields, strict, aliases?.name)
          : ndjsonLines(source, aliases?.body);
      const write = writeMany(database, operations, plan);
      return database.admission.run('stream', caller.principal.organization, () =>
        importLines(lines, plan, {
          write: (bodies) =>
            retryWhenBusy(async () => {
              await assertAllowed();
              return write(bodies);
            }),
          keysOf: (record) => keysOf(context.definition, record),
          onProgress,
        }),
      );
    },
  }),
  describe: ({ definition, pluralName }: DescribedResource): OperationDescription => ({
    operationId: `import${pluralName}`,
    summary: `Import ${definition.name.replaceAll('_', ' ')}`,
    parameters: parameterDescriptions,
    body: {
      description:
        'Records as CSV with a header of field names, or as JSON objects, one per line. Can be compressed with gzip.',
      schema: 'Lines',
    },
    success: { description: 'The result of the import.', schema: 'ImportReport' },
  }),
} as const;

const parameterDescriptions = [
  {
    name: 'match',
    in: 'query',
    description:
      'Unique fields, separated by commas. Existing records with the same values are updated as by PATCH, which also requires the `update` grant.',
    schema: { type: 'string' },
  },
  {
    name: 'on_error',
    in: 'query',
    description: '`continue` writes all valid lines; `stop` writes the lines before the first invalid one.',
    schema: { type: 'string', enum: ['continue', 'stop'], default: 'continue' },
  },
  {
    name: 'dry_run',
    in: 'query',
    description: '`true` validates all lines, including their references, without writing anything.',
    schema: { type: 'boolean', default: false },
  },
];

/** Parses the options of an import. @throws HttpError 400 with all invalid parameters */
function optionsOf(query: Query, strict: boolean): ImportOptions {
  const issues = unknownParameters({ query, strict }, [...commonParameters, ...parameters]);
  const { match, on_error: onError = 'continue', dry_run: dryRun = 'false' } = query;
  if (onError !== 'continue' && onError !== 'stop')
    issues.push(parameterIssue('on_error', 'must be continue or stop'));
  if (dryRun !== 'true' && dryRun !== 'false')
    issues.push(parameterIssue('dry_run', 'must be true or false'));
  if (Array.isArray(match)) issues.push(parameterIssue('match', 'must not be repeated'));
  rejectRequest(issues);
  return {
    strict,
    match: typeof match === 'string' ? match.split(',') : undefined,
    stops: onError === 'stop',
    isDryRun: dryRun === 'true',
  };
}

/** A route that reads a body of any length. It is like an operation, but runs any number of statements. */
export interface Upload<Compiled = unknown> {
  readonly method: 'POST';
  /** Appended to the path of the resource. */
  readonly path: string;
  /** The required grant. */
  readonly action: Action;
  /** The status code on success. */
  readonly status: 200;
  /** Accepted formats of the body. */
  readonly formats: readonly FormatName[];
  readonly compile: (context: OperationContext, operations: CompiledOperations) => Compiled;
  readonly describe: (resource: DescribedResource) => OperationDescription;
}

/** All uploads, in the order of the OpenAPI document. */
export const uploads = { import: imports } satisfies Readonly<Record<string, Upload>>;

/** The compiled uploads of one resource. */
export interface CompiledUploads {
  readonly import: Import;
}

/** Compiles every upload of a resource. */
export const compileUploads = (
  context: OperationContext,
  operations: CompiledOperations,
): CompiledUploads => ({ import: uploads.import.compile(context, operations) });
