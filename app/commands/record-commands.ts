import { createReadStream } from 'node:fs';
import { extname } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import type { Resource } from '../../engine/compile/index.ts';
import { fileReason, HttpError, UserError } from '../../engine/errors.ts';
import {
  assertOutputWritable,
  type CommandLine,
  type CommandResult,
  jsonResult,
  organizationOption,
  showProgress,
  writeOutput,
} from '../../engine/modules/index.ts';
import {
  commandCaller,
  customFieldsIn,
  type Delimiter,
  delimiters,
  exportStream,
  type FormatName,
  formatNames,
  type ImportSummary,
} from '../../engine/records/index.ts';
import { organizationId, phoneRegionIn, transaction } from '../../engine/tables/index.ts';
import { suggestion } from '../../engine/yaml/index.ts';
import type { Instance } from '../services.ts';

type Line = CommandLine<Instance>;

/** Maximum number of failed lines to print as text. JSON output contains all of them. */
const maxPrintedLines = 20;

const formatOption = () =>
  new Option('--format <format>', 'default: inferred from the file extension').choices(formatNames);
const collect = (value: string, previous: readonly string[]): readonly string[] => [...previous, value];

/** Adds the `export` and `import` commands. */
export function recordCommands(line: Line): void {
  const { program, run } = line;
  program
    .command('export <resource> [file]')
    .description('export records as CSV or NDJSON to a file or standard output')
    .addOption(organizationOption())
    .addOption(formatOption())
    .option(
      '--filter <parameter>',
      'a list parameter, for example status=New or sort=id; repeatable',
      collect,
      [],
    )
    .option('--force', 'overwrite an existing file')
    .addOption(jsonResult())
    .action((resource, file, { json, ...options }) =>
      run(json, exportRecords(line, resource, file, { ...options, isJson: json === true })),
    );
  program
    .command('import <resource> <file>')
    .description('import records from CSV or NDJSON; - reads standard input')
    .addOption(organizationOption())
    .addOption(formatOption())
    .option('--match <fields>', 'update existing records with the same values in these unique fields')
    .addOption(
      new Option('--on-error <what>', 'whether to continue or stop after a failed line')
        .choices(['continue', 'stop'])
        .default('continue'),
    )
    .option('--dry-run', 'validate all lines and write nothing')
    .addOption(
      new Option('--delimiter <name>', 'the character between the cells of CSV')
        .choices(Object.keys(delimiters) as Delimiter[])
        .default('comma'),
    )
    .option(
      '--column <name=field>',
      'the field that a CSV column contains, or nothing to ignore it; repeatable',
      (value: string, previous: readonly string[]) => [...previous, value],
      [],
    )
    .addOption(jsonResult())
    .action((resource, file, { json, ...options }) =>
      run(json, importRecords(line, resource, file, options)),
    );
}

interface ExportOptions {
  readonly org: string;
  readonly format?: string | undefined;
  readonly filter: readonly string[];
  readonly force?: true | undefined;
  readonly isJson: boolean;
}

const exportRecords = async (
  { withInstance }: Line,
  name: string,
  file: string | undefined,
  options: ExportOptions,
): Promise<CommandResult> => {
  assertOutputWritable({ ...options, file });
  const format = formatFor(file, options.format) ?? 'csv';
  return withInstance(async (instance) => {
    const { list } = resourceOf(instance, name).operations;
    if (list.export === undefined) throw new UserError(`${name} cannot be exported`);
    const operation = list.export;
    const caller = await callerIn(instance, options.org);
    const bytes = await withUserErrors(async () => {
      const customFields = await customFieldsIn(instance.database, resourceOf(instance, name), caller);
      const plan = operation.plan({ caller, query: queryOf(options.filter), strict: true, customFields });
      const stream = await exportStream(instance.database, operation, plan, format);
      return writeOutput(stream, { file });
    });
    return {
      json: { file, format, bytes },
      text: file === undefined ? '' : `Wrote ${bytes} bytes to ${file}.`,
    };
  });
};

interface ImportOptions {
  readonly org: string;
  readonly format?: string | undefined;
  readonly match?: string | undefined;
  readonly onError: string;
  readonly dryRun?: true | undefined;
  readonly delimiter: Delimiter;
  readonly column: readonly string[];
}

const importRecords = async (
  { withInstance }: Line,
  name: string,
  file: string,
  { org, match, onError, dryRun, delimiter, column, ...options }: ImportOptions,
): Promise<CommandResult> => {
  const format = formatFor(file === '-' ? undefined : file, options.format);
  if (format === undefined)
    throw new UserError(`cannot detect the format. Pass --format ${formatNames.join(' or ')}.`);
  return withInstance(async (instance) => {
    const upload = resourceOf(instance, name).uploads.import;
    const caller = await callerIn(instance, org);
    const report = await withUserErrors(async () => {
      const plan = upload.plan({
        caller,
        format,
        match: match?.split(','),
        stops: onError === 'stop',
        isDryRun: dryRun === true,
        delimiter,
        columns: columnsOf(column),
        customFields: await customFieldsIn(instance.database, resourceOf(instance, name), caller),
      });
      const source = file === '-' ? process.stdin : createReadStream(file);
      return upload.run(instance.database, plan, source, { onProgress: showProgress('lines') });
    });
    if (report.failed > 0) process.exitCode = 1;
    return { json: { ...report }, text: textOf(report) };
  });
};

/** Formats an import report as text. */
function textOf({
  created,
  updated,
  failed,
  stopped,
  dry_run: isDryRun,
  ignored,
  lines,
}: ImportSummary): string {
  const counts = `${created} created, ${updated} updated, ${failed} failed`;
  const printedLines = lines.slice(0, maxPrintedLines).map(({ line, error }) => `line ${line}: ${error}`);
  return [
    isDryRun ? `Dry run, nothing was written. Result: ${counts}.` : `${counts}.`,
    ...(ignored.length > 0 ? [`Ignored columns: ${ignored.join(', ')}`] : []),
    ...printedLines,
    ...(failed > printedLines.length ? [`and ${failed - printedLines.length} more lines`] : []),
    ...(stopped ? ['The import stopped at this line. Later lines were not written.'] : []),
  ].join('\n');
}

/** Returns the format from the option or the file extension, or undefined if neither specifies one. */
function formatFor(file: string | undefined, option: string | undefined): FormatName | undefined {
  const extension = file === undefined ? '' : extname(file).slice(1).toLowerCase();
  const name = option ?? (extension === 'jsonl' ? 'ndjson' : extension);
  return formatNames.find((format) => format === name);
}

function resourceOf({ resources }: Instance, name: string): Resource {
  const match = resources.find((resource) => resource.name === name);
  if (match !== undefined) return match;
  const names = resources.map((resource) => resource.name);
  throw new UserError(`resource "${name}" does not exist${suggestion(name, names)}`);
}

/** Returns a caller with all grants in an organization, for CLI commands. */
async function callerIn({ database }: Instance, slug: string) {
  return transaction(database, async (tables) => {
    const organization = await organizationId(tables, slug);
    const { principal, ...caller } = commandCaller(organization);
    return { ...caller, principal: { ...principal, phoneRegion: await phoneRegionIn(tables, organization) } };
  });
}

/** Parses the fields of columns, for example `Surname=last_name`. @throws UserError if a column has no field */
const columnsOf = (pairs: readonly string[]): ReadonlyMap<string, string> =>
  new Map(
    pairs.map((pair) => {
      const end = pair.lastIndexOf('=');
      if (end === -1) throw new UserError(`--column must have the form Surname=last_name, not ${pair}`);
      return [pair.slice(0, end), pair.slice(end + 1)];
    }),
  );

/** Parses list parameters, for example `status=New`. @throws UserError if a parameter has no name */
function queryOf(parameters: readonly string[]): Record<string, readonly string[] | string> {
  const query: Record<string, string[]> = {};
  for (const parameter of parameters) {
    const [, name = '', value = ''] = /^([^=]+)=(.*)$/s.exec(parameter) ?? [];
    if (name === '') throw new UserError(`--filter must have the form status=New, not ${parameter}`);
    query[name] = [...(query[name] ?? []), value];
  }
  return Object.fromEntries(
    Object.entries(query).map(([name, values]) => [name, values.length === 1 ? (values[0] ?? '') : values]),
  );
}

/**
 * Runs work and converts request and file errors to UserErrors.
 * @throws UserError with a one-line message
 */
async function withUserErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const { code, path } = cause as NodeJS.ErrnoException;
    if (code !== undefined && path !== undefined)
      throw new UserError(`${path}: ${fileReason(cause)}`, { cause });
    if (!(cause instanceof HttpError)) throw cause;
    const { created = 0, updated = 0 } = (cause.extra.report ?? {}) as Partial<ImportSummary>;
    const progress = cause.extra.report
      ? `; before the error, ${created} records were created and ${updated} updated`
      : '';
    throw new UserError(`${cause.message}${progress}`, { cause });
  }
}
