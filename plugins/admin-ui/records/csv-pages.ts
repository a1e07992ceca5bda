import { randomUUID } from 'node:crypto';
import { parse } from 'node:querystring';
import { pipeline, Readable, Transform, type TransformCallback } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { errors, HttpError, UserError } from '../../../engine/errors.ts';
import type { ImportSummary } from '../../../engine/records/index.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { claimForm, type Form, type FormPage, field, redirectDone } from '../shell/index.ts';
import { queryOf } from './list-page.ts';
import { MultipartForm, maxFile, maxForm } from './multipart.ts';
import type { DataHandler, DataRequest, DataRoutes } from './routes.ts';
import { humanize } from './values.ts';

const code = (character: string): number => character.charCodeAt(0);
const [quote, comma, lineFeed, carriageReturn, apostrophe] = [
  code('"'),
  code(','),
  code('\n'),
  code('\r'),
  code("'"),
];
/** Characters that make spreadsheets evaluate a cell as a formula, and the apostrophe, which prevents this. */
const formulas = new Set(["'", '=', '+', '-', '@', '\t', '\r'].map(code));

/**
 * Determines how the start of a cell changes: `add` adds an apostrophe, and `hold` removes one before a
 * formula.
 */
type CellTransform = (cell: {
  readonly first: number;
  readonly column: number;
  readonly isHeader: boolean;
}) => 'add' | 'hold' | 'keep';

/** Changes the start of each CSV cell. */
class Cells extends Transform {
  private isQuoted = false;
  private isStart = true;
  private column = 0;
  private line = 0;
  /** Whether an apostrophe at the start of a cell has been read but not yet written. */
  private hasPendingApostrophe = false;

  private readonly change: CellTransform;

  constructor(change: CellTransform) {
    super();
    this.change = change;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    // Each byte starts at most one cell, which gets at most one apostrophe.
    const output = Buffer.allocUnsafe(2 * chunk.length);
    let length = 0;
    // Using an index is several times faster than iterating over the bytes.
    for (let index = 0; index < chunk.length; index++) {
      const byte = chunk[index] as number;
      if (this.hasPendingApostrophe) {
        this.hasPendingApostrophe = false;
        if (!formulas.has(byte)) output[length++] = apostrophe;
      } else if (this.isStart && byte !== quote && byte !== comma && byte !== lineFeed) {
        const edit = this.change({ first: byte, column: this.column, isHeader: this.line === 0 });
        this.isStart = false;
        if (edit === 'hold') {
          this.hasPendingApostrophe = true;
          continue;
        }
        // A line break is not a cell.
        if (edit === 'add' && (this.isQuoted || byte !== carriageReturn)) output[length++] = apostrophe;
      }
      if (byte === quote) {
        // The opening quote is not part of the cell.
        if (this.isQuoted) this.isStart = false;
        this.isQuoted = !this.isQuoted;
      } else if (!this.isQuoted && (byte === comma || byte === lineFeed)) {
        this.isStart = true;
        this.column = byte === comma ? this.column + 1 : 0;
        if (byte === lineFeed) this.line++;
      }
      output[length++] = byte;
    }
    done(null, output.subarray(0, length));
  }

  override _flush(done: TransformCallback): void {
    done(null, this.hasPendingApostrophe ? Buffer.from([apostrophe]) : undefined);
  }
}

/**
 * Adds an apostrophe to text cells that spreadsheets would evaluate as formulas.
 * @param isText returns whether a column contains text
 */
const escapeFormulas = (isText: (column: number) => boolean): Transform =>
  new Cells(({ first, column, isHeader }) =>
    !isHeader && isText(column) && formulas.has(first) ? 'add' : 'keep',
  );

/** Removes the apostrophes added by {@link escapeFormulas}, so that importing an exported file restores its values. */
const unescapeFormulas = (): Transform =>
  new Cells(({ first, isHeader }) => (!isHeader && first === apostrophe ? 'hold' : 'keep'));

/** Maximum size of forms without a file, in bytes. */
const maxPlainForm = 1024 * 1024;
/** Number of bytes processed at a time when reading a file. */
const sliceBytes = 64 * 1024;
/** Maximum number of lines with errors in a report. */
const maxReportedLines = 50;

/** Registers the CSV export of lists and the CSV import, which checks a file before writing. */
export function csvPages(app: FastifyInstance, { get, post }: DataRoutes, database: Database): void {
  // The route's body limit is the limit for files.
  const plainForm = 'application/x-www-form-urlencoded';
  app.removeContentTypeParser(plainForm);
  app.addContentTypeParser(plainForm, { parseAs: 'string' }, (_request, body, done) =>
    body.length > maxPlainForm ? done(errors.tooLarge(maxPlainForm)) : done(null, parse(String(body))),
  );
  app.addContentTypeParser('multipart/form-data', (request: FastifyRequest, payload: Readable) =>
    MultipartForm.start(request.headers, payload),
  );
  app.addHook('onResponse', async ({ body }) => {
    if (body instanceof MultipartForm) await body.discard();
  });

  const exportCsv: DataHandler = async ({ request, reply, resource, calls }) => {
    const query = queryOf(resource, new URLSearchParams(request.url.split('?')[1] ?? ''));
    const { definition } = resource;
    const isText = definition.fields.map(({ type }) => type.json.type === 'string');
    const csv = await calls.csv(resource, query);
    reply.header('content-type', 'text/csv; charset=utf-8; header=present');
    reply.header('content-disposition', `attachment; filename="${definition.name}.csv"`);
    // A failure closes the connection, so the client notices the incomplete response.
    return reply.send(
      pipeline(
        Readable.from(csv),
        escapeFormulas((column) => isText[column] === true),
        () => {},
      ),
    );
  };
  get('/export', exportCsv, { streams: ['text/csv'] });

  get('/import', async (context) => context.sendPage(importForm(context, {})));

  post(
    '/import',
    async (context) => {
      const { request, reply, resource, calls, path } = context;
      const { body } = request;
      const { form, file } =
        body instanceof MultipartForm
          ? await body.rest()
          : { form: (body ?? {}) as Form, file: Buffer.from(field((body ?? {}) as Form, 'file'), 'base64') };
      const isChecked = field(form, 'step') === 'import';
      const match = field(form, 'match');
      const reject = (problem: string) => {
        reply.code(400);
        return context.sendPage(importForm(context, { match }), { problem });
      };
      // The browser resubmits a checked file as base64.
      const bytes = file?.length ? file : Buffer.from(field(form, 'content'), 'base64');
      if (bytes.length === 0) return reject('choose a file');
      if (bytes.length > maxFile)
        return reject(
          `the file is larger than ${maxFile / 1024 / 1024} MiB. Import it through the API instead.`,
        );
      try {
        // A file that is submitted twice is imported only once.
        if (isChecked)
          await transaction(database, (tables) => claimForm(tables, `${path} ${field(form, 'key')}`));
        const source = Readable.from(slicesOf(bytes)).pipe(unescapeFormulas());
        const report = await calls.importCsv(resource, source, {
          isDryRun: !isChecked,
          match: match === '' ? undefined : match.split(','),
        });
        if (isChecked && report.failed === 0)
          return redirectDone(request, reply, path, 'records-imported', { name: writtenText(report) });
        const content =
          isChecked || report.created + report.updated === 0 ? undefined : bytes.toString('base64');
        return context.sendPage(importForm(context, { match, content, report }));
      } catch (error) {
        const isInputError =
          error instanceof UserError || (error instanceof HttpError && error.status === 400);
        if (!isInputError) throw error;
        return reject(error.message);
      }
    },
    { bodyLimit: maxForm },
  );
}

/** Yields a file's bytes in slices, on demand. */
function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let offset = 0; offset < bytes.length; offset += sliceBytes)
    yield bytes.subarray(offset, offset + sliceBytes);
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;

/** Returns a sentence with the number of records that an import has written. */
const writtenText = ({ created, updated }: ImportSummary): string =>
  updated === 0
    ? plural(created, 'record')
    : `${plural(created, 'new record')} and ${plural(updated, 'updated record')}`;

/** Returns the report lines for a checked or imported file. */
function reportLines({
  created,
  updated,
  failed,
  dry_run,
  ignored,
  lines,
  truncated,
}: ImportSummary): string[] {
  const will = dry_run ? ' to be' : '';
  const counts = [
    `${plural(created, 'record')}${will} created`,
    ...(updated > 0 ? [`${updated}${will} updated`] : []),
    `${plural(failed, 'line')} with errors`,
  ];
  return [
    `${counts.join(', ')}.`,
    ...(ignored.length > 0 ? [`Ignored columns: ${ignored.join(', ')}.`] : []),
    ...lines.slice(0, maxReportedLines).map(({ line, error }) => `Line ${line}: ${error}`),
    ...(truncated || lines.length > maxReportedLines ? ['More lines have errors.'] : []),
  ];
}

function importForm(
  { resource, path, calls }: DataRequest,
  { match = '', content, report }: { match?: string; content?: string | undefined; report?: ImportSummary },
): FormPage & { readonly kind: 'form' } {
  if (!calls.allows(resource, 'create')) throw errors.forbidden(resource.name, 'create');
  const { uniques } = resource.definition;
  const matches = calls.allows(resource, 'update')
    ? uniques.map((unique) => unique.map(({ name }) => name).join())
    : [];
  return {
    kind: 'form',
    title: `Import ${humanize(resource.name).toLowerCase()}`,
    above: { label: humanize(resource.name), href: path },
    intro: `A CSV file whose first line contains field names: ${resource.definition.fields
      .filter(({ readOnly }) => !readOnly)
      .map(({ name }) => name)
      .join(', ')}. The file is checked first. Nothing is written until you import it.`,
    action: `${path}/import`,
    hasFile: true,
    ...(report && { report: reportLines(report) }),
    hidden:
      content === undefined
        ? []
        : [
            { name: 'content', value: content },
            { name: 'key', value: randomUUID() },
          ],
    inputs: [
      {
        kind: 'file',
        name: 'file',
        label: content === undefined ? 'File' : 'Another file',
        required: content === undefined,
      },
      ...(matches.length === 0
        ? []
        : [
            {
              kind: 'choice' as const,
              name: 'match',
              label: 'If a record already exists',
              options: [
                { value: '', label: 'Report an error' },
                ...matches.map((value) => ({
                  value,
                  label: `Update the record with the same ${value.split(',').map(humanize).join(' and ')}`,
                  selected: value === match,
                })),
              ],
            },
          ]),
    ],
    submit: 'Check file',
    ...(content !== undefined && { also: [{ label: 'Import records', value: 'import' }] }),
    cancel: path,
  };
}
