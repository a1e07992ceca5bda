import { randomUUID } from 'node:crypto';
import { parse } from 'node:querystring';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors, HttpError, UserError } from '../../../engine/errors.ts';
import { type Field, fieldLabel } from '../../../engine/fields/index.ts';
import { defaultBodyLimit, guessColumns, type ImportSummary } from '../../../engine/records/index.ts';
import { transaction } from '../../../engine/tables/index.ts';
import {
  claimForm,
  type Form,
  type FormPage,
  field,
  messageIn,
  redirectDone,
  type Text,
} from '../shell/index.ts';
import { otherNamesOf } from './column-names.ts';
import { type ImportFile, maxFile, readImportFile } from './import-file.ts';
import { parseImportResult, reportLines, sendErrors, writtenText } from './import-report.ts';
import type { ImportRequest } from './import-request.ts';
import { isUnfinished, jobPath } from './job-pages.ts';
import { MultipartForm, maxColumns, maxForm } from './multipart.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import type { RecordsText } from './texts/index.ts';
import { undoableImport } from './undo.ts';
import { resourceWords, truncate } from './values.ts';

/** A checked file, and what people chose for it. */
interface ImportState {
  readonly match?: string;
  readonly file?: ImportFile;
  /** The fields that the file's columns contain, by the columns' names. */
  readonly columns?: ReadonlyMap<string, string>;
  readonly report?: ImportSummary;
}

/**
 * Registers the CSV import. It checks a file, lets people choose the fields that the columns contain, and starts the job that writes
 * the records when the checked file is sent again.
 */
export function importPage(app: FastifyInstance, { get, post }: DataRoutes, database: Database): void {
  // The route's body limit is the limit for files.
  const plainForm = 'application/x-www-form-urlencoded';
  app.removeContentTypeParser(plainForm);
  app.addContentTypeParser(plainForm, { parseAs: 'string' }, (_request, body, done) =>
    body.length > defaultBodyLimit
      ? done(errors.tooLarge(defaultBodyLimit))
      : done(null, parse(String(body))),
  );
  app.addContentTypeParser('multipart/form-data', (request: FastifyRequest, payload: Readable) =>
    MultipartForm.start(request.headers, payload),
  );
  app.addHook('onResponse', async ({ body }) => {
    if (body instanceof MultipartForm) await body.discard();
  });

  get('/import', async (context) => context.sendPage(importForm(context, {})));

  post(
    '/import',
    async (context) => {
      const { request, reply, resource, calls, path, t } = context;
      const { body } = request;
      const { form, file: upload } =
        body instanceof MultipartForm
          ? await body.rest()
          : { form: (body ?? {}) as Form, file: Buffer.from(field((body ?? {}) as Form, 'file'), 'base64') };
      const match = field(form, 'match');
      const reject = (problem: string, state: ImportState = {}, status = 400) => {
        reply.code(status);
        return context.sendPage(importForm(context, { ...state, match }), { problem });
      };
      // The browser sends a checked file again as base64. Another file must be checked first.
      const isNew = upload !== undefined && upload.length > 0;
      const content = isNew ? upload : Buffer.from(field(form, 'content'), 'base64');
      const step = isNew ? '' : field(form, 'step');
      if (content.length === 0) return reject(t('chooseFile'));
      const file = content.length > maxFile ? undefined : readImportFile(content);
      if (content.length > maxFile || (file && file.bytes.length > maxFile))
        return reject(t('fileTooLarge', { size: `${maxFile / 1024 / 1024} MiB` }));
      if (file === undefined) return reject(t('notCsv'));
      const { header, delimiter } = file.preview;
      const guesses = guessColumns(header, fieldsOf(context));
      const columns = isNew ? guesses : chosenColumns(form, header, guesses);
      const state: ImportState = { match, file, columns };
      if ([...columns.values()].every((name) => name === ''))
        return context.sendPage(importForm(context, state));
      const input = {
        ...{ bytes: file.bytes, delimiter, columns },
        match: match === '' ? undefined : match.split(','),
      };
      try {
        if (step === 'import') {
          // A file that is submitted twice is imported only once.
          await transaction(database, (tables) => claimForm(tables, `${path} ${field(form, 'key')}`));
          return await startImport(context, input);
        }
        const report = await calls.checkImport(resource, input);
        if (step === 'errors') return sendErrors(context, report);
        return context.sendPage(importForm(context, { ...state, report }));
      } catch (error) {
        const isInputError =
          error instanceof UserError || (error instanceof HttpError && [400, 429].includes(error.status));
        if (!isInputError) throw error;
        const message = messageIn(error, context.language);
        return error instanceof HttpError ? reject(message, state, error.status) : reject(message);
      }
    },
    { bodyLimit: maxForm },
  );
}

/** Interval at which to check whether the import has ended, in milliseconds. */
const lookMs = 50;

/** Starts an import. An import that soon completes without errors leads to the list, and all others to the job's page. */
async function startImport(context: DataRequest, file: ImportRequest) {
  const { request, reply, resource, calls, path, t } = context;
  const id = await calls.startImport(resource, file);
  const end = performance.now() + request.server.importWaitMs;
  let job = await calls.job(id);
  while (isUnfinished(job) && performance.now() < end) {
    await pause(lookMs);
    job = await calls.job(id);
  }
  const result = job.state === 'completed' ? parseImportResult(job.result) : undefined;
  if (result === undefined || result.failed > 0) return reply.redirect(jobPath(context, id), 303);
  return redirectDone(request, reply, path, 'records-imported', {
    name: writtenText(result, t),
    change: undoableImport(context, result),
  });
}

/** Returns the fields that columns can contain, with the names that people see. */
const fieldsOf = ({ resource }: DataRequest): readonly LabelledField[] =>
  resource.definition.fields
    .filter(({ readOnly }) => !readOnly)
    .map((field) => {
      const [name, label] = [field.name, fieldLabel(field)];
      return { name, label, otherNames: otherNamesOf([name, label]) };
    });

type LabelledField = Required<Pick<Field, 'name' | 'label'>> & { readonly otherNames: readonly string[] };

const inputOf = (index: number): string => `column.${index}`;

/** Returns the submitted fields of the columns. Columns without an input keep the guess. */
const chosenColumns = (
  form: Form,
  header: readonly string[],
  guesses: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> =>
  new Map(
    header.map((column, index) => [
      column,
      form[inputOf(index)] === undefined ? (guesses.get(column) ?? '') : field(form, inputOf(index)),
    ]),
  );

function importForm(
  context: DataRequest,
  { match = '', file, columns = new Map(), report }: ImportState,
): FormPage<Text> & { readonly kind: 'form' } {
  const { resource, path, calls, language, t } = context;
  if (!calls.allows(resource, 'create')) throw errors.forbidden(resource.name, 'create');
  const { uniques } = resource.definition;
  const fields = fieldsOf(context);
  const matches = calls.allows(resource, 'update')
    ? uniques.map((unique) => ({
        value: unique.map(({ name }) => name).join(),
        label: new Intl.ListFormat(language).format(unique.map(fieldLabel)),
      }))
    : [];
  const isPending = file !== undefined;
  const writable = report === undefined ? 0 : report.created + report.updated;
  const canImport = isPending && writable > 0;
  return {
    kind: 'form',
    title: t('import', { records: resourceWords(resource, language) }),
    above: { label: resourceLabel(resource.definition), href: path },
    intro: isPending ? t('chooseFields') : t('importIntro'),
    action: `${path}/import`,
    hasFile: true,
    ...(report && { report: reportLines(report, language) }),
    hidden: isPending
      ? [
          { name: 'content', value: file.bytes.toString('base64') },
          { name: 'key', value: randomUUID() },
        ]
      : [],
    inputs: [
      ...(isPending ? columnInputs(file, { columns, fields, t }) : []),
      {
        kind: 'file',
        name: 'file',
        label: isPending ? t('anotherFile') : t('file'),
        required: !isPending,
      },
      ...(matches.length === 0
        ? []
        : [
            {
              kind: 'choice' as const,
              name: 'match',
              label: t('ifExists'),
              options: [
                { value: '', label: t('reportError') },
                ...matches.map(({ value, label }) => ({
                  value,
                  label: t('updateSame', { fields: label }),
                  selected: value === match,
                })),
              ],
            },
          ]),
    ],
    ...(canImport
      ? { submit: t('importCount', { count: writable }), step: 'import' }
      : { submit: t('checkFile') }),
    also: [
      ...(canImport ? [{ label: t('checkFile'), value: 'check' }] : []),
      ...(isPending && report !== undefined && report.failed > 0
        ? [{ label: t('downloadErrors'), value: 'errors' }]
        : []),
    ],
    cancel: path,
  };
}

/** Returns the inputs that choose the fields of a file's columns, each with examples from the file. */
const columnInputs = (
  { preview: { header, records } }: ImportFile,
  {
    columns,
    fields,
    t,
  }: {
    readonly columns: ReadonlyMap<string, string>;
    readonly fields: readonly LabelledField[];
    readonly t: RecordsText;
  },
): FormPage<Text>['inputs'] =>
  header.slice(0, maxColumns).map((column, index) => {
    const chosen = columns.get(column) ?? '';
    const examples = records.map((cells) => cells[index] ?? '').filter((cell) => cell !== '');
    return {
      kind: 'choice',
      name: inputOf(index),
      label: t('column', { name: truncate(column, maxCell) }),
      ...(examples.length > 0 && {
        help: t('examples', { values: examples.map((text) => truncate(text, maxCell)).join(' · ') }),
      }),
      options: [
        { value: '', label: t('ignore') },
        ...fields.map(({ name, label }) => ({ value: name, label, selected: name === chosen })),
      ],
    };
  });

/** Maximum length of a cell on the page. */
const maxCell = 40;
