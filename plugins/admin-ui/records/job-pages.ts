import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors } from '../../../engine/errors.ts';
import { documentText, humanize, parseExactJson } from '../../../engine/fields/index.ts';
import { type Body, type JobStatus, labelOfAction } from '../../../engine/records/index.ts';
import { jobsTexts, progressOfJob, stateOfJob } from '../../jobs/index.ts';
import { redirectDone } from '../shell/index.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import type { RecordsText } from './texts/index.ts';

/** Interval at which the page of an unfinished job is reloaded, in seconds. */
const refreshSeconds = 2;

/** Returns the URL of a job's page. */
export const jobPath = ({ path }: Pick<DataRequest, 'path'>, id: string): string => `${path}/jobs/${id}`;

/** Registers the pages that show the progress and the result of a job. */
export function jobPages({ get, post }: DataRoutes): void {
  get('/jobs/:job', showJob);
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
async function jobOf({ request, resource, calls }: DataRequest): Promise<JobStatus> {
  const { job: id } = request.params as { readonly job: string };
  const job = await calls.job(id);
  if (job.resource !== resource.name) throw errors.notFound();
  return job;
}

/** Returns the label of a job's action, or its name if the instance no longer has it. */
const labelOf = ({ resource }: DataRequest, { action: name }: JobStatus): string =>
  labelOfAction(resource.actions.find((action) => action.name === name) ?? { name });

/** Sends the page of a job, which is reloaded until the job is finished. */
async function showJob(context: DataRequest) {
  const { request, resource, calls, path, sendPage, language, t } = context;
  const job = await jobOf(context);
  const { id, recordId, state, progress, createdAt, finishedAt } = job;
  const label = labelOf(context, job);
  const isFinished = state !== 'queued' && state !== 'running';
  const back =
    recordId !== null && calls.allows(resource, 'read')
      ? { label: t('backToRecord'), href: `${path}/${recordId}` }
      : { label: resourceLabel(resource.definition), href: path };
  const ofJobs = jobsTexts(language);
  const isReadOnly = request.server.isReadOnly?.() === true;
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
        ...resultValues(job),
      ],
      links: isFinished ? [back] : [{ label: t('refreshPage'), href: jobPath(context, id) }],
      buttons: isFinished
        ? []
        : [
            {
              label: t('cancel'),
              name: t('cancelAction', { action: label }),
              action: `${jobPath(context, id)}/cancel`,
              fields: [],
            },
          ],
    },
    state === 'failed' ? { problem: errorText(job, t) } : {},
  );
}

/** Returns the properties of a job's result with their labels. */
function resultValues({ result }: JobStatus) {
  if (result === '') return [];
  return Object.entries(parseExactJson(result, Number.POSITIVE_INFINITY) as Body).map(([name, value]) => ({
    label: humanize(name),
    text: typeof value === 'string' ? value : documentText(value),
  }));
}

/** Returns why a job failed. The member does not necessarily see the reason. */
const errorText = ({ error }: JobStatus, t: RecordsText): string =>
  error === '' ? t('actionFailed') : (JSON.parse(error) as { readonly error: string }).error;
