import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../database/index.ts';
import { type ErrorCode, errors, HttpError } from '../errors.ts';
import { hasCustomFields } from '../fields/index.ts';
import { parameterIssue, type Query } from '../query/index.ts';
import { type Action, allows } from './access.ts';
import { aliasesOf } from './aliases.ts';
import { customFieldsOf } from './custom-fields.ts';
import { type FormatName, formatNames } from './formats.ts';
import { type ImportSummary, type ImportWrites, importLines, keysOf, writeMany } from './import-lines.ts';
import {
  type CsvOptions,
  columnOfParameter,
  csvLines,
  type Delimiter,
  delimiters,
  ndjsonLines,
} from './line-parsers.ts';
import type { Caller, DescribedResource, OperationContext, OperationDescription } from './operation.ts';
import type { CompiledOperations } from './operations.ts';
import { commonParameters, rejectRequest, unknownParameters } from './requests.ts';

/** Error codes of statements that did not run or were rolled back, and that can succeed if retried. */
const transientCodes: readonly ErrorCode[] = ['overloaded', 'too_slow'];
const maxTries = 5;
const firstPauseMs = 250;

/**
 * Runs one step of a long operation and retries it with backoff if the database is busy, so that the previous
 * steps are not lost.
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

/** How an import reads CSV. NDJSON has no delimiters and columns. */
type CsvLayout = Pick<CsvOptions, 'delimiter' | 'columns'>;

/** Options for an import. */
export interface ImportOptions extends Partial<Omit<ImportWrites, 'caller'>>, CsvLayout {}

/** The input for an import. */
interface ImportInput extends ImportOptions {
  readonly caller: Caller;
  readonly format: FormatName;
}

/** A validated import. */
interface ImportPlan extends ImportWrites, CsvLayout {
  readonly format: FormatName;
}

const parameters = ['match', 'on_error', 'dry_run', 'delimiter'];

/** Callbacks for an import. */
interface ImportObserver {
  /** Called after each statement with the number of lines processed so far, and their results. */
  readonly onProgress?: (lines: number, summary: ImportSummary) => void;
  /** Called before each statement. The import stops if the promise rejects. */
  readonly assertAllowed?: () => Promise<void>;
}

/** A resource's import operation. */
interface Import {
  /** Parses the options from query parameters. @throws HttpError 400 with all invalid parameters */
  readonly options: (query: Query, strict: boolean) => ImportOptions;
  /** Validates the input. @throws HttpError 403 if the caller cannot update matching records */
  readonly plan: (input: ImportInput) => ImportPlan;
  /**
   * Writes a body's records in order, up to 1,000 per statement.
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
    options: optionsOf,
    plan: ({ strict = false, match, stops = false, isDryRun = false, ...rest }) => {
      const { name } = context.definition;
      if (match !== undefined && !allows(rest.caller.principal.grants, context.stored, 'update'))
        throw errors.forbidden(name, 'update');
      return { ...rest, strict, match, stops, isDryRun };
    },
    run: async (database, plan, source, { onProgress = () => {}, assertAllowed = async () => {} } = {}) => {
      const { format, strict, caller } = plan;
      const { definition } = context;
      const fields = hasCustomFields(definition)
        ? [...definition.fields, ...customFieldsOf(plan, definition)]
        : definition.fields;
      const lines =
        format === 'csv'
          ? csvLines(source, { ...plan, fields, strict, current: aliases?.name })
          : ndjsonLines(source, aliases?.body);
      const write = writeMany(database, operations, plan);
      return database.schedule(
        () =>
          importLines(lines, plan, {
            write: (bodies) =>
              retryWhenBusy(async () => {
                await assertAllowed();
                return write(bodies);
              }),
            keysOf: (record) => keysOf(context.definition, record),
            onProgress,
          }),
        { organization: caller.principal.organization, lane: 'stream' },
      );
    },
  }),
  describe: ({ definition, pluralName }: DescribedResource): OperationDescription => ({
    operationId: `import${pluralName}`,
    summary: `Import ${definition.name.replaceAll('_', ' ')}`,
    parameters: parameterDescriptions,
    body: {
      description:
        'Records as CSV with a header row of field names, or as JSON objects, one per line. Can be compressed with gzip.',
      schema: 'Lines',
    },
    success: { description: 'The result of the import.', schema: 'ImportReport' },
  }),
} as const;

const delimiterNames = Object.keys(delimiters);
const isDelimiter = (name: unknown): name is Delimiter =>
  typeof name === 'string' && delimiterNames.includes(name);

const parameterDescriptions = [
  {
    name: 'match',
    in: 'query',
    description:
      'Comma-separated unique fields. Existing records with the same values are updated as with PATCH, which also requires the `update` grant.',
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
  {
    name: 'delimiter',
    in: 'query',
    description: 'The character between the cells of CSV.',
    schema: { type: 'string', enum: delimiterNames, default: 'comma' },
  },
  {
    name: 'column',
    in: 'query',
    description:
      'The fields that columns of CSV contain, for columns that are not named like their fields: `column[NAME]=field`. An empty value ignores a column.',
    style: 'deepObject',
    explode: true,
    schema: { type: 'object', additionalProperties: { type: 'string' } },
  },
];

/** Parses the options for an import. @throws HttpError 400 with all invalid parameters */
function optionsOf(query: Query, strict: boolean): ImportOptions {
  const columnParameters = Object.keys(query).filter((name) => columnOfParameter(name) !== undefined);
  const names = [...commonParameters, ...parameters, ...columnParameters];
  const issues = unknownParameters({ query, strict }, names);
  const { match, on_error: onError = 'continue', dry_run: dryRun = 'false', delimiter = 'comma' } = query;
  if (onError !== 'continue' && onError !== 'stop')
    issues.push(parameterIssue('on_error', 'must be continue or stop'));
  if (dryRun !== 'true' && dryRun !== 'false')
    issues.push(parameterIssue('dry_run', 'must be true or false'));
  if (Array.isArray(match)) issues.push(parameterIssue('match', 'must not be repeated'));
  if (!isDelimiter(delimiter))
    issues.push(parameterIssue('delimiter', `must be one of: ${delimiterNames.join(', ')}`));
  const columns = new Map<string, string>();
  for (const name of columnParameters) {
    const fieldName = query[name];
    if (typeof fieldName === 'string') columns.set(columnOfParameter(name) ?? '', fieldName);
    else issues.push(parameterIssue(name, 'must not be repeated'));
  }
  rejectRequest(issues);
  return {
    strict,
    match: typeof match === 'string' ? match.split(',') : undefined,
    stops: onError === 'stop',
    isDryRun: dryRun === 'true',
    ...(isDelimiter(delimiter) && { delimiter }),
    columns,
  };
}

/** A route that reads a body of any length. Unlike an operation, it can run any number of statements. */
export interface Upload<Compiled = unknown> {
  readonly method: 'POST';
  /** Suffix appended to the resource's path. */
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
