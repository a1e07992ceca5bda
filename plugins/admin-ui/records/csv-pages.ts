import { randomUUID } from 'node:crypto';
import { parse } from 'node:querystring';
import { pipeline, Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { errors, HttpError, UserError } from '../../../engine/errors.ts';
import type { ImportSummary } from '../../../engine/records/index.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { claimForm, type Form, type FormPage, field, redirectDone } from '../shell/index.ts';
import { escapeFormulas, unescapeFormulas } from './csv.ts';
import { queryOf } from './list-page.ts';
import { MultipartForm, maxFile, maxForm } from './multipart.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import { humanize } from './values.ts';

/** Maximum size of a form without a file, in bytes. */
const maxUsual = 1024 * 1024;
/** Number of bytes of a file processed at a time. */
const sliceBytes = 64 * 1024;
/** Lines of the report that are shown. */
const maxShown = 50;

/** Lists as CSV, and CSV as records: checked first, then written. */
export function csvPages(app: FastifyInstance, { get, post }: DataRoutes, database: Database): void {
  // The limit of the route is that of a file.
  const usual = 'application/x-www-form-urlencoded';
  app.removeContentTypeParser(usual);
  app.addContentTypeParser(usual, { parseAs: 'string' }, (_request, body, done) =>
    body.length > maxUsual ? done(errors.tooLarge(maxUsual)) : done(null, parse(String(body))),
  );
  app.addContentTypeParser('multipart/form-data', (request: FastifyRequest, payload: Readable) =>
    MultipartForm.start(request.headers, payload),
  );
  app.addHook('onResponse', async ({ body }) => {
    if (body instanceof MultipartForm) await body.discard();
  });

  get('/export', async ({ request, reply, resource, calls }) => {
    const query = queryOf(resource, new URLSearchParams(request.url.split('?')[1] ?? ''));
    const { definition } = resource;
    const isText = definition.fields.map(({ type }) => type.json.type === 'string');
    const csv = await calls.csv(resource, query);
    reply.header('content-type', 'text/csv; charset=utf-8; header=present');
    reply.header('content-disposition', `attachment; filename="${definition.name}.csv"`);
    // A failure ends the response: whoever reads it sees that it is cut off.
    return reply.send(
      pipeline(
        Readable.from(csv),
        escapeFormulas((column) => isText[column] === true),
        () => {},
      ),
    );
  });

  get('/import', async (asked) => asked.shown(importForm(asked, {})));

  post(
    '/import',
    async (asked) => {
      const { request, reply, resource, calls, path } = asked;
      const { body } = request;
      const { form, file } =
        body instanceof MultipartForm
          ? await body.rest()
          : { form: (body ?? {}) as Form, file: Buffer.from(field((body ?? {}) as Form, 'file'), 'base64') };
      const isChecked = field(form, 'step') === 'import';
      const match = field(form, 'match');
      const refuse = (problem: string) => {
        reply.code(400);
        return asked.shown(importForm(asked, { match }), { problem });
      };
      // A checked file comes back in base64.
      const bytes = file?.length ? file : Buffer.from(field(form, 'content'), 'base64');
      if (bytes.length === 0) return refuse('choose a file');
      if (bytes.length > maxFile)
        return refuse(`the file is larger than ${maxFile / 1024 / 1024} MiB: send it to the API`);
      try {
        // Sent twice, a file is imported once.
        if (isChecked)
          await transaction(database, (tables) => claimForm(tables, `${path} ${field(form, 'key')}`));
        const source = Readable.from(slicesOf(bytes)).pipe(unescapeFormulas());
        const report = await calls.importCsv(resource, source, {
          dry_run: String(!isChecked),
          ...(match !== '' && { match }),
        });
        if (isChecked && report.failed === 0)
          return redirectDone(request, reply, path, 'records-imported', { name: counted(report) });
        const checked =
          isChecked || report.created + report.updated === 0 ? undefined : bytes.toString('base64');
        return asked.shown(importForm(asked, { match, content: checked, report }));
      } catch (error) {
        const isMistake = error instanceof UserError || (error instanceof HttpError && error.status === 400);
        if (!isMistake) throw error;
        return refuse(error.message);
      }
    },
    { bodyLimit: maxForm },
  );
}

/** The bytes of a file in slices, which are processed as they are needed. */
function* slicesOf(bytes: Buffer): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += sliceBytes) yield bytes.subarray(at, at + sliceBytes);
}

const counted = ({ created, updated }: ImportSummary): string =>
  `${created} new${updated === 0 ? '' : ` and ${updated} changed`} record${created + updated === 1 ? ' is' : 's are'}`;

/** What became of a file, in lines. */
function reportLines({
  created,
  updated,
  failed,
  dry_run,
  ignored,
  lines,
  truncated,
}: ImportSummary): string[] {
  const would = dry_run ? 'would be' : 'are';
  return [
    `${created} records ${would} created${updated > 0 ? `, ${updated} ${would} changed` : ''}, ${failed} lines ${dry_run ? 'are wrong' : 'have failed'}.`,
    ...(ignored.length > 0 ? [`Ignored columns: ${ignored.join(', ')}.`] : []),
    ...lines.slice(0, maxShown).map(({ line, error }) => `Line ${line}: ${error}`),
    ...(truncated || lines.length > maxShown ? ['More lines are wrong.'] : []),
  ];
}

function importForm(
  { resource, path, calls }: DataRequest,
  { match = '', content, report }: { match?: string; content?: string | undefined; report?: ImportSummary },
): FormPage & { readonly kind: 'form' } {
  if (!calls.may(resource, 'create')) throw errors.forbidden(resource.name, 'create');
  const { uniques } = resource.definition;
  const matches = calls.may(resource, 'update')
    ? uniques.map((unique) => unique.map(({ name }) => name).join())
    : [];
  return {
    kind: 'form',
    title: `Import ${humanize(resource.name).toLowerCase()}`,
    above: { label: humanize(resource.name), href: path },
    intro: `A CSV file whose first line has names of fields: ${resource.definition.fields
      .filter(({ readOnly }) => !readOnly)
      .map(({ name }) => name)
      .join(', ')}. It is checked first, and nothing is written until you import it.`,
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
              label: 'A record with the same',
              options: [
                { value: '', label: 'is refused' },
                ...matches.map((value) => ({
                  value,
                  label: `${value} is changed`,
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
