import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { errors, HttpError, reasonKey } from '../../../engine/errors.ts';
import { assertWritable, limitsChanged } from '../../../engine/http/index.ts';
import { customFieldsIn, delimiters } from '../../../engine/records/index.ts';
import { type JobType, permittedCaller, type RunningJob } from '../../jobs/index.ts';
import { countRecords } from './import-file.ts';
import { importErrorJson, importResultJson } from './import-report.ts';
import { actionsOfImport, csvSource, importJob, parseImportInput } from './import-request.ts';
import { recordsTexts } from './texts/index.ts';
import { importTransaction } from './undo.ts';
import { resourceWords } from './values.ts';

/** Time limit of an import, in minutes. */
const maxMinutes = 60;
/** How long an import can continue when its process stops, in milliseconds. Shorter than the time in which a process must stop. */
const graceMs = 4000;

declare module 'fastify' {
  interface FastifyInstance {
    /** How long the response to a form waits for the end of the import, in milliseconds. */
    importWaitMs: number;
  }
}

/** Default of `importWaitMs`. */
export const defaultImportWaitMs = 1500;

/** Adds the jobs that import records of each resource. */
export function addImportJobs(
  app: FastifyInstance,
  { database, resources }: { readonly database: Database; readonly resources: readonly Resource[] },
): void {
  const typeOf = (resource: Resource): JobType => ({
    resource,
    name: importJob,
    label: (language) => recordsTexts(language)('import', { records: resourceWords(resource, language) }),
    grant: 'create',
    ...{ maxMinutes, graceMs },
    // An import that is repeated would create its records again.
    maxAttempts: 1,
    // The records of the current statement are counted before the job ends.
    isInterruptible: false,
    run: (running) => importRecords(app, database, resource, running),
    failure: (reason, progress) =>
      reason === 'late' ? errors.importTooSlow(maxMinutes) : errors.importInterrupted(progress?.done ?? 0),
    errorJson: importErrorJson,
  });
  app.jobs.types.push(...resources.map(typeOf));
  app.decorate('importWaitMs', defaultImportWaitMs);
}

/** Imports the records of a job's file. @returns the result as JSON. @throws HttpError for any failure */
async function importRecords(
  app: FastifyInstance,
  database: Database,
  resource: Resource,
  { job, step, report }: RunningJob,
): Promise<string> {
  const { bytes, ...options } = parseImportInput(job.input);
  /** Returns the member with the current grants. @throws HttpError 401 or 403 if the member can no longer import */
  const currentMember = async () =>
    permittedCaller(await app.principalAgain(job.caller), resource, actionsOfImport(options));
  const principal = await currentMember();
  const caller = { principal, requestId: job.requestId };
  const view = resource.viewFor(principal.grants);
  const plan = view.uploads.import.plan({
    ...{ caller, format: 'csv', ...options },
    customFields: await customFieldsIn(database, view, caller),
  });
  const total = countRecords(bytes, delimiters[options.delimiter]);
  const source = csvSource({ bytes, delimiter: options.delimiter });
  const summary = await view.uploads.import
    .run(database, plan, source, {
      assertAllowed: () =>
        step(async () => {
          assertWritable(app);
          const { grants } = await currentMember();
          if (resource.viewFor(grants).context.view !== view.context.view) throw limitsChanged();
        }),
      onProgress: (done, partial) =>
        report({ done, total: Math.max(done, total) }, () => importResultJson(partial)),
    })
    .catch((cause: unknown) => {
      throw cause instanceof HttpError ? withoutReport(cause) : cause;
    });
  const { organization } = job;
  const request = { organization, requestId: job.requestId, resource: resource.name };
  // All records are stored, so the import has not failed, even if it is unknown how to undo it.
  const transaction = await importTransaction(database, request, summary).catch(() => undefined);
  return importResultJson({ ...summary, ...(transaction !== undefined && { transaction }) });
}

/** Returns an error of an import without its report, which is stored as the result of the job and must not be logged. */
function withoutReport({ status, code, text, extra, cause, [reasonKey]: reason }: HttpError): HttpError {
  const { report: _, ...others } = extra;
  return new HttpError(status, code, text, others, { cause, reason });
}
