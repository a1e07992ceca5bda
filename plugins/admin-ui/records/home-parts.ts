import type { FastifyInstance, FastifyRequest } from 'fastify';
import { sql } from 'kysely';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { recordLabel, resourceLabel } from '../../../engine/definition/index.ts';
import { fieldLabel, refersToUser } from '../../../engine/fields/index.ts';
import { allows, runOperation } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import {
  addHomeParts,
  addHomeStep,
  type CurrentMember,
  type HomeParts,
  hueAt,
  type Language,
  localeOf,
} from '../shell/index.ts';
import { boardTotals, summedField, sumTexts } from './board-totals.ts';
import { type Calls, principalOf } from './calls.ts';
import { boardFields } from './list-filters.ts';
import { currentViewer } from './see-as.ts';
import { recordsTexts } from './texts/index.ts';
import { inText, textOf, titlesOf } from './values.ts';

/** Maximum number of pipelines on a home page. */
const maxCharts = 3;
/** Maximum number of lines in a list on a home page. */
const maxItems = 5;
/** Number of weeks in a trend, including the current one. */
const weeks = 8;
const dayMs = 86_400_000;

interface HomeServices {
  readonly resources: readonly Resource[];
  readonly database: Database;
  readonly callsOf: (request: FastifyRequest, member: CurrentMember) => Calls;
}

/** The member that sees a home page, and the resources that they can list and read. */
interface HomeContext extends Pick<HomeServices, 'database'> {
  readonly member: CurrentMember;
  readonly calls: Calls;
  readonly views: readonly ResourceView[];
  readonly language: Language;
  readonly locale: string;
  /** URL of the records pages. */
  readonly base: string;
}

const isShown = ({ definition }: Pick<Resource, 'definition'>): boolean =>
  definition.screen.isHidden !== true;

/** Adds the member's records, the number of new records per week, and pipelines to the home page, and a step to its checklist. */
export function recordParts(app: FastifyInstance, { resources, database, callsOf }: HomeServices): void {
  addHomeParts(app, async (request, language) => {
    const { member } = await currentViewer(database, request);
    const { grants, slug } = member.membership;
    const context: HomeContext = {
      ...{ database, member, language, locale: localeOf(request), base: `/setup/o/${slug}/data` },
      calls: callsOf(request, member),
      views: resources
        .filter(({ definition }) => allows(grants, definition, 'list') && allows(grants, definition, 'read'))
        .filter(isShown)
        .map((resource) => resource.viewFor(grants)),
    };
    const [lists, trends, charts] = await Promise.all([
      ownRecords(context),
      newRecords(context),
      pipelines(context),
    ]);
    return { lists, trends, charts };
  });
  const first = resources.find(isShown);
  if (first === undefined) return;
  addHomeStep(app, {
    label: recordsTexts.later('createOrImport'),
    path: `data/${first.name}`,
    isDone: async ({ membership: { organization } }) => {
      const tests = resources.map(
        ({ name }) =>
          sql`exists (select from ${sql.table(name)} where organization_id = ${organization}::bigint)`,
      );
      const { rows } = await sql<{ found: boolean }>`select ${sql.join(tests, sql` or `)} as found`.execute(
        tablesOf(database),
      );
      return rows[0]?.found === true;
    },
  });
}

/** Returns the records that the member owns and that changed last. */
async function ownRecords({
  calls,
  views,
  language,
  locale,
  base,
}: HomeContext): Promise<NonNullable<HomeParts['lists']>> {
  const titles = titlesOf(views, locale);
  const found = views.map(async (resource) => {
    const { definition } = resource;
    const updated = definition.fields.find(({ set }) => set === 'updated');
    const owned = definition.filters.find(({ field }) => refersToUser(field) && field.set === 'creator');
    const parameter = owned?.parameters.find(({ operator }) => operator === 'eq' || operator === 'in');
    if (updated === undefined || parameter === undefined || !definition.sort.choices.has(updated.name))
      return [];
    const fields = [...new Set([...titles.fields(resource), updated])].map(({ name }) => name).join();
    const query = { [parameter.name]: 'me', sort: updated.name, dir: 'desc', fields };
    // A busy database must not prevent the page from loading.
    const { items: records } = await calls.page(resource, query).catch(() => ({ items: [] }));
    return records.map((record) => ({
      text: titles.of(resource, record),
      href: `${base}/${resource.name}/${textOf(record.id)}`,
      below: recordLabel(definition),
      time: String(record[updated.name]),
    }));
  });
  const items = (await Promise.all(found)).flat().sort((a, b) => b.time.localeCompare(a.time));
  return items.length === 0
    ? []
    : [{ title: recordsTexts(language)('myRecords'), items: items.slice(0, maxItems) }];
}

/** Returns the number of records created in each of the last weeks, for resources that can be counted by week. */
async function newRecords({
  database,
  member,
  views,
  language,
  locale,
  base,
}: HomeContext): Promise<NonNullable<HomeParts['trends']>> {
  const t = recordsTexts(language);
  const numbers = new Intl.NumberFormat(locale);
  const today = new Date();
  const monday = Date.UTC(
    today.getUTCFullYear(),
    today.getUTCMonth(),
    today.getUTCDate() - ((today.getUTCDay() + 6) % 7),
  );
  const starts = Array.from({ length: weeks }, (_, index) =>
    new Date(monday - (weeks - 1 - index) * 7 * dayMs).toISOString().slice(0, 10),
  );
  const found = views.map(async (resource, index) => {
    const created = createdField(resource);
    if (created === undefined) return [];
    const counts = await weeklyCounts(database, resource, {
      member,
      field: created.name,
      start: starts[0] ?? '',
    });
    const values = starts.map((start) => counts.get(start) ?? 0);
    const largest = Math.max(...values);
    if (largest === 0) return [];
    return [
      {
        label: resourceLabel(resource.definition),
        hue: hueAt(index),
        href: `${base}/${resource.name}?${new URLSearchParams({ [`${created.name}[gte]`]: starts[0] ?? '' })}`,
        description: t('createdPerWeek', {
          records: resourceLabel(resource.definition),
          counts: values.map((value) => numbers.format(value)).join(', '),
        }),
        width: weeks * 10 - 2,
        bars: values.map((value, week) => {
          const height = value === 0 ? 1 : Math.max(2, Math.round((24 * value) / largest));
          return { x: week * 10, y: 24 - height, height };
        }),
        numbers: [values.at(-2) ?? 0, values.at(-1) ?? 0].map((value) => numbers.format(value)),
      },
    ];
  });
  const rows = (await Promise.all(found)).flat();
  return rows.length === 0
    ? []
    : [
        {
          title: t('newPerWeek'),
          label: t('recordsLabel'),
          numberLabels: [t('lastWeek'), t('thisWeek')],
          rows,
        },
      ];
}

/** Returns the field with the time of creation if a resource can be filtered and counted by it. */
const createdField = ({ definition }: ResourceView) =>
  definition.fields.find(
    ({ name, set }) =>
      set === 'created' &&
      definition.aggregates?.groupBy.some((group) => group.name === name) === true &&
      definition.filters.some(({ parameters }) =>
        parameters.some((parameter) => parameter.name === `${name}[gte]`),
      ),
  );

/** Returns the number of records created in each week from a day on, by the week's first day. */
async function weeklyCounts(
  database: Database,
  { operations }: ResourceView,
  {
    member,
    field,
    start,
  }: { readonly member: CurrentMember; readonly field: string; readonly start: string },
): Promise<ReadonlyMap<string, number>> {
  if (operations.aggregate === undefined) return new Map();
  const group = `${field}.week`;
  try {
    const { json } = await runOperation(database, operations.aggregate, {
      caller: { principal: principalOf(member), requestId: '' },
      query: { group_by: group, [`${field}[gte]`]: start },
    });
    const groups = JSON.parse(`[${json}]`) as readonly Readonly<Record<string, string | number>>[];
    return new Map(groups.map((values) => [String(values[group]), Number(values['count()'])]));
  } catch {
    // Counts must not prevent the page from loading.
    return new Map();
  }
}

/** Returns a chart for each resource with a pipeline: the number of records by value, and their sum. */
async function pipelines({
  database,
  member,
  views,
  language,
  locale,
  base,
}: HomeContext): Promise<NonNullable<HomeParts['charts']>> {
  const numbers = new Intl.NumberFormat(locale);
  const charts = views
    .filter(hasPipeline)
    .slice(0, maxCharts)
    .map(async (resource): Promise<NonNullable<HomeParts['charts']>> => {
      const [board] = boardFields(resource);
      const totals = board && (await boardTotals(database, resource, principalOf(member), board.field));
      const values = board?.field.values?.list ?? [];
      const largest = Math.max(...values.map((value) => totals?.get(value)?.count ?? 0));
      if (board === undefined || totals === undefined || largest <= 0) return [];
      const summed = summedField(resource);
      const sums = sumTexts(totals, values, summed, locale);
      const path = `${base}/${resource.name}`;
      return [
        {
          title: recordsTexts(language)('recordsBy', {
            records: resourceLabel(resource.definition),
            field: inText(fieldLabel(board.field), language),
          }),
          href: `${path}/board`,
          label: fieldLabel(board.field),
          sumLabel: summed && fieldLabel(summed),
          rows: values.map((value, index) => {
            const { count = 0 } = totals.get(value) ?? {};
            const sum = sums[index];
            return {
              label: value,
              hue: hueAt(index),
              href: `${path}?${new URLSearchParams({ [board.field.name]: value })}`,
              count: numbers.format(count),
              share: Math.round((100 * count) / largest),
              ...(sum !== undefined && { sum }),
            };
          }),
        },
      ];
    });
  return (await Promise.all(charts)).flat();
}

/** Returns whether a resource has a pipeline: a board in its definition, or a board that adds up an amount. */
const hasPipeline = (resource: ResourceView): boolean =>
  boardFields(resource).length > 0 &&
  (resource.definition.screen.board !== undefined || summedField(resource) !== undefined);
