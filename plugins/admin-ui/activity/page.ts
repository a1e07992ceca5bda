import { pipeline, Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import type { Resource } from '../../../engine/compile/index.ts';
import { boundToRequest, type Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import { HttpError } from '../../../engine/errors.ts';
import { approvalIn } from '../../../engine/records/index.ts';
import { type Tables, tablesOf } from '../../../engine/tables/index.ts';
import { findPeople, personLines } from '../../access/identity/index.ts';
import {
  addHomeParts,
  adminOf,
  type CurrentMember,
  type FilterField,
  filterMenu,
  hiddenParameters,
  isAdministrator,
  type Language,
  linkWithParameters,
  memberOf,
  messageIn,
  parametersOf,
  section,
  signedIn,
  type TextIn,
} from '../shell/index.ts';
import {
  type ActivityLine,
  activityFilters,
  activityTimes,
  fallbackNames,
  listActivity,
} from './activity-lines.ts';
import { changedValues } from './changed-values.ts';
import { activityActions, activityObjects, activitySentences } from './sentences.ts';
import { activityTexts } from './texts/index.ts';

const pageLength = 50;
/** Number of entries on the home page. */
const homeLines = 5;
/** Number of rows read at a time for a CSV export. */
const csvRows = 1000;

/** Services required for the activity page. */
export interface ActivityServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}

/** Registers the activity page, which shows the newest entries first. */
export function activityPage(app: FastifyInstance, { config, database, resources }: ActivityServices): void {
  /** Returns a page's lines, or the error in its query parameters. */
  const linesOf = async (organization: string, parameters: Readonly<Record<string, string>>) => {
    try {
      const { before } = parameters;
      const page = { filters: parameters, before, limit: pageLength };
      return { lines: await listActivity(tablesOf(database), organization, page), error: undefined };
    } catch (error) {
      if (!(error instanceof HttpError) || error.status !== 400) throw error;
      return { lines: [], error };
    }
  };

  const sentencesFor = (
    { organization, slug, grants }: CurrentMember['membership'],
    lines: readonly ActivityLine[],
    language: Language,
  ) =>
    activitySentences(tablesOf(database), lines, {
      organization,
      resources: resources.map((resource) => resource.viewFor(grants)),
      base: `/setup/o/${slug}`,
      language,
    });

  addHomeParts(app, async (request, language) => {
    const t = activityTexts(language);
    const { membership } = memberOf(app, request);
    if (!isAdministrator(membership)) return {};
    const hidden = resources.filter(({ definition }) => definition.screen.isHidden === true);
    const newest = await linesOf(membership.organization, {});
    const lines = newest.lines
      .filter(({ object }) => !hidden.some(({ name }) => name === object))
      .slice(0, homeLines);
    if (lines.length === 0) return {};
    const sentences = await sentencesFor(membership, lines, language);
    const people = await findPeople(tablesOf(database), lines.flatMap(userIdOf));
    const items = lines.map((line, index) => ({
      ...sentences[index],
      time: line.at,
      below: whoOf(line, people, language).text ?? null,
    }));
    const all = { label: t('allActivity'), href: `/setup/o/${membership.slug}/activity` };
    return { lists: [{ title: t('recentActivity'), items, all }] };
  });

  section(app, database, {
    name: 'activity',
    title: activityTexts.later('activity'),
    group: 'Data',
    icon: 'activity',
    isTranslated: true,
    load: async ({ membership }, request, language) => {
      const t = activityTexts(language);
      const path = `/setup/o/${membership.slug}/activity`;
      const parameters = parametersOf(request);
      const { lines, error } = await linesOf(membership.organization, parameters);
      const sentences = await sentencesFor(membership, lines, language);
      const views = resources.map((resource) => resource.viewFor(membership.grants));
      const changes = await changedValues(tablesOf(database), membership.organization, lines, views);
      const people = await findPeople(tablesOf(database), lines.flatMap(userIdOf));
      const last = lines.length === pageLength ? lines.at(-1)?.position : undefined;
      const activeFilters = Object.entries(activityFilters).filter(
        ([name]) => parameters[name] !== undefined,
      );
      const without = ['by', 'value', 'before'];
      return {
        ...(error !== undefined && { problem: messageIn(error, language) }),
        ...(!config.audit && {
          intro: t('disabledRecording'),
        }),
        filter: await filterMenu(filterFields(resources, language), {
          by: parameters.by,
          keep: hiddenParameters(parameters, without),
          language,
          link: (by) => linkWithParameters(path, parameters, { by, value: undefined, before: undefined }),
        }),
        chips: activeFilters.map(([name, { label, operator }]) => {
          const filter = `${label(language)} ${operator(language)} ${parameters[name]}`;
          return {
            label: filter,
            name: t('removeFilter', { filter }),
            isRemoved: true,
            href: linkWithParameters(path, parameters, { [name]: undefined, before: undefined }),
          };
        }),
        columns: [{ title: t('what') }, { title: t('who') }, { title: t('when') }],
        rows: lines.map((line, index) => ({
          id: line.position,
          cells: [
            { ...sentences[index], changes: changes.get(line.position) },
            whoOf(line, people, language),
            { time: line.at },
          ],
        })),
        empty:
          activeFilters.length > 0
            ? { text: t('noResults'), link: { label: t('showAll'), href: path } }
            : { text: t('none') },
        first:
          parameters.before === undefined
            ? undefined
            : linkWithParameters(path, parameters, { before: undefined }),
        downloads: [
          {
            label: t('exportCsv'),
            href: linkWithParameters(`${path}/export`, parameters, { before: undefined }),
            isFile: true,
          },
        ],
        next: last === undefined ? undefined : linkWithParameters(path, parameters, { before: last }),
      };
    },
    actions: {},
  });

  const csvRoute = { preHandler: signedIn(app), config: { streams: ['text/csv'] } };
  app.get('/o/:org/activity/export', csvRoute, async (request, reply) => {
    const { organization, slug } = adminOf(app, request).membership;
    activityTimes(parametersOf(request));
    reply.header('content-type', 'text/csv; charset=utf-8');
    reply.header('content-disposition', `attachment; filename="${slug}-activity.csv"`);
    const lines =
      request.method === 'HEAD'
        ? []
        : boundToRequest(csvRecords(tablesOf(database), organization, parametersOf(request)));
    // Loaded on the first export. Escapes formulas, because spreadsheets would evaluate names that start with
    // "=".
    const { stringify } = await import('csv-stringify');
    const csv = stringify({ header: true, escape_formulas: true });
    // An error while streaming ends the response, and Fastify logs it.
    pipeline(Readable.from(lines), csv, () => {});
    return reply.send(csv);
  });
}

/** Returns the fields by which the activity can be filtered. */
const filterFields = (resources: readonly Resource[], language: Language): FilterField[] => {
  const suggestions: Readonly<Record<string, readonly string[]>> = {
    action: activityActions,
    object: [...resources.map(({ name }) => name), ...activityObjects],
  };
  const entries = Object.entries(activityFilters);
  const labels = [...new Set(entries.map(([, { label }]) => label))];
  return labels.map((label) => {
    const own = entries.filter(([, filter]) => filter.label === label);
    const [[name = '', first] = []] = own;
    return {
      name,
      label: label(language),
      operators: own.map(([value, { operator }]) => ({ value, label: operator(language) })),
      input: async () => ({
        kind: first?.control ?? 'line',
        maxLength: 200,
        options: (suggestions[name] ?? []).map((value) => ({ value, label: '' })),
      }),
    };
  });
};

/** Returns the ID of the user who made a change, if a user made it. */
const userIdOf = ({ actorKind, actorId }: ActivityLine): readonly string[] =>
  actorKind === 'user' && actorId !== null ? [actorId] : [];

/** Names of actors that are neither users nor keys. */
const actorLabels: Readonly<Record<string, TextIn>> = {
  command: activityTexts.later('byCommand'),
  partner: activityTexts.later('byPartner'),
};

/** Returns the actor of an entry: a user's current name or another actor's name at the time of the change. */
function whoOf(line: ActivityLine, people: Awaited<ReturnType<typeof findPeople>>, language: Language) {
  const [id] = userIdOf(line);
  const person = id === undefined ? undefined : people.get(id);
  if (person !== undefined) {
    const lines = personLines(person);
    return { ...lines, text: `${lines.text}${approvalIn(line.actor)}` };
  }
  const isFallback = line.actor === fallbackNames[line.actorKind];
  return {
    text: (isFallback && actorLabels[line.actorKind]?.(language)) || line.actor,
    below: line.actorKind === 'key' ? activityTexts(language)('apiKey') : null,
  };
}

/** Yields all matching entries, newest first, as CSV rows. */
async function* csvRecords(
  tables: Tables,
  organization: string,
  filters: Parameters<typeof listActivity>[2]['filters'],
): AsyncGenerator<Readonly<Record<string, string>>> {
  for (let before: string | undefined, isComplete = false; !isComplete; ) {
    const lines = await listActivity(tables, organization, { filters, before, limit: csvRows });
    for (const { at, actor, actorKind, action, object, objectId } of lines) {
      yield { at: at.toISOString(), actor, actor_kind: actorKind, action, object, id: objectId ?? '' };
    }
    before = lines.at(-1)?.position;
    isComplete = lines.length < csvRows;
  }
}
