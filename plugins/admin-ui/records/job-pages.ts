import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { documentText, humanize, parseOwnJson } from '../../../engine/fields/index.ts';
import { type Body, type JobStatus, labelOfAction } from '../../../engine/records/index.ts';
import { jobsTexts, progressOfJob, stateOfJob, type VisibleJob } from '../../jobs/index.ts';
import { type Link, redirectDone, sendWholeValue } from '../shell/index.ts';
import { excerptLengths } from './calls.ts';
import { importErrorIn, parseImportResult, reportLines, sendErrors } from './import-report.ts';
import { importJob } from './import-request.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import { undoableImport } from './undo.ts';
import { isTruncated, resourceWords, truncate } from './values.ts';

/** Interval at which the page of an unfinished job is reloaded, in seconds. */
const refreshSeconds = 2;

/** Returns the URL of a job's page. */
export const jobPath = ({ path }: Pick<DataRequest, 'path'>, id: string): string => `${path}/jobs/${id}`;

/** Returns whether a job is waiting or running. */
export const isUnfinished = ({ state }: JobStatus): boolean => state === 'queued' || state === 'running';

/** Registers the pages that show the progress and the result of a job. */
export function jobPages({ get, post }: DataRoutes): void {
  get('/jobs/:job', showJob);
  get('/jobs/:job/errors.csv', async (context) => {
    const job = await jobOf(context);
    const result = isImport(job) ? parseImportResult(job.result) : undefined;
    if (result === undefined) throw errors.notFound();
    return sendErrors(context, result);
  });
  get('/jobs/:job/value', async (context) => {
    const job = await jobOf(context);
    if (isImport(job) || job.result === '') throw errors.notFound();
    return sendWholeValue(context.reply, job.result);
  });
  post('/jobs/:job/cancel', async (context) => {
    const { request, reply, calls } = context;
    const job = await jobOf(context);
    await calls.cancelJob(job.id);
    return redirectDone(request, reply, jobPath(context, job.id), 'job-canceled', {
      name: labelOf(context, job),
    });
  });
}

/** Returns the job in a URL. @throws HttpError 404 if it does not exist, or the member cannot see it */
async function jobOf({ request, resource, calls }: DataRequest): Promise<VisibleJob> {
  const { job: id } = request.params as { readonly job: string };
  const job = await calls.job(id);
  if (job.resource !== resource.name) throw errors.notFound();
  return job;
}

const isImport = ({ action }: JobStatus): boolean => action === importJob;

/** Returns the label of a job: that of its action, or the name if the instance no longer has the action. */
const labelOf = ({ resource, language, t }: DataRequest, job: JobStatus): string =>
  isImport(job)
    ? t('import', { records: resourceWords(resource, language) })
    : labelOfAction(resource.actions.find(({ name }) => name === job.action) ?? { name: job.action });

/** Sends the page of a job, which is reloaded until the job is finished. */
async function showJob(context: DataRequest) {
  const { request, resource, calls, path, sendPage, language, t } = context;
  const job = await jobOf(context);
  const { id, recordId, state, progress, createdAt, finishedAt } = job;
  const label = labelOf(context, job);
  const isFinished = !isUnfinished(job);
  const back =
    recordId !== null && calls.allows(resource, 'read')
      ? { label: t('backToRecord'), href: `${path}/${recordId}` }
      : { label: resourceLabel(resource.definition), href: path };
  const ofJobs = jobsTexts(language);
  const isReadOnly = request.server.isReadOnly?.() === true;
  const {
    values,
    report,
    links = [],
    buttons = [],
    problem,
  } = (isImport(job) ? importParts : actionParts)(context, job);
  return sendPage(
    {
      kind: 'record',
      title: label,
      above: back,
      badges: [stateOfJob(state, language)],
      ...(!isFinished && {
        refreshSeconds,
        intro: isReadOnly ? t('jobReadOnly') : t('jobRefreshes'),
      }),
      ...(report && { report }),
      values: [
        ...(progress === null
          ? []
          : [
              {
                label: ofJobs('progress'),
                ...progressOfJob(progress, request, language),
              },
            ]),
        { label: ofJobs('started'), time: createdAt },
        ...(finishedAt === null ? [] : [{ label: ofJobs('finished'), time: finishedAt }]),
        ...(values ?? []),
      ],
      links: isFinished ? [back, ...links] : [{ label: t('refreshPage'), href: jobPath(context, id) }],
      buttons: isFinished
        ? buttons
        : [
            {
              label: t('cancel'),
              name: t('cancelAction', { action: label }),
              action: `${jobPath(context, id)}/cancel`,
              fields: [],
            },
          ],
    },
    state === 'failed' ? { problem } : {},
  );
}

/** The parts of a job's page that depend on its type. */
interface JobParts {
  readonly values?: readonly { readonly label: string; readonly text: string }[];
  /** Sentences about the result. */
  readonly report?: readonly string[];
  /** The links and buttons of a finished job. */
  readonly links?: readonly Link[];
  readonly buttons?: readonly {
    readonly label: string;
    readonly name: string;
    readonly action: string;
    readonly fields: readonly { readonly name: string; readonly value: string }[];
  }[];
  /** Why the job failed. The member does not necessarily see the reason. */
  readonly problem: string;
}

/** Maximum number of properties of a result on a page, and maximum number of characters in their labels. */
const [maxProperties, maxLabel] = [50, 100];

/** Returns the parts of the page of an action: the properties of its result, and its error. Long ones are truncated. */
const actionParts = (context: DataRequest, { id, result, error }: VisibleJob): JobParts => {
  const { t } = context;
  const properties = Object.entries(result === '' ? {} : (parseOwnJson(result) as Body));
  const hidden = properties.length - maxProperties;
  const shown = properties.slice(0, maxProperties).map(([name, value]) => ({
    label: truncate(humanize(name), maxLabel),
    text: typeof value === 'string' ? value : documentText(value),
  }));
  return {
    values: shown.map(({ label, text }) => ({ label, text: truncate(text, excerptLengths.many) })),
    links:
      hidden > 0 || shown.some(({ text }) => isTruncated(text, excerptLengths.many))
        ? [{ label: t('showResult'), href: `${jobPath(context, id)}/value` }]
        : [],
    ...(hidden > 0 && { report: [t('moreProperties', { count: hidden })] }),
    problem:
      error === ''
        ? t('actionFailed')
        : truncate((JSON.parse(error) as { readonly error: string }).error, excerptLengths.many),
  };
};

/** Returns the parts of the page of an import: what it has written, the lines with errors, and the button that undoes it. */
function importParts(context: DataRequest, { id, result: json, error, isStarter }: VisibleJob): JobParts {
  const { path, language, t } = context;
  const result = parseImportResult(json);
  const change = result && isStarter ? undoableImport(context, result) : undefined;
  return {
    ...(result && {
      report: [...reportLines(result, language), ...(result.undone === true ? [t('importWasUndone')] : [])],
    }),
    links:
      result && result.failed > 0
        ? [{ label: t('downloadErrors'), href: `${jobPath(context, id)}/errors.csv` }]
        : [],
    buttons:
      change === undefined
        ? []
        : [
            {
              ...{ label: t('undoImport'), name: t('undoImport'), action: `${path}/undo` },
              fields: [
                { name: 'change', value: change },
                { name: 'from', value: 'notice' },
              ],
            },
          ],
    problem: error === '' ? t('importFailed') : importErrorIn(error, language),
  };
}
