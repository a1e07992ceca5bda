import type { FastifyInstance } from 'fastify';
import type { Resource, ResourceView } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import { resourceLabel } from '../../../engine/definition/index.ts';
import { fieldLabel, inSentence } from '../../../engine/fields/index.ts';
import { allows } from '../../../engine/records/index.ts';
import { addHomeCharts, type HomePage, hueAt, localeOf } from '../shell/index.ts';
import { boardTotals, summedField } from './board-totals.ts';
import { principalOf } from './calls.ts';
import { boardFields } from './list-filters.ts';
import { currentViewer } from './see-as.ts';

/** Maximum number of charts on a home page. */
const maxCharts = 3;

/** Adds a chart to the home page for resources with a pipeline: the number of records by value, and their sum. */
export function pipelineCharts(
  app: FastifyInstance,
  { resources, database }: { readonly resources: readonly Resource[]; readonly database: Database },
): void {
  addHomeCharts(app, async (request) => {
    const { member } = await currentViewer(database, request);
    const { grants, slug } = member.membership;
    const locale = localeOf(request);
    const numbers = new Intl.NumberFormat(locale);
    const shown = resources
      .filter(({ definition }) => allows(grants, definition, 'list') && allows(grants, definition, 'read'))
      .map((resource) => resource.viewFor(grants))
      .filter(hasPipeline)
      .slice(0, maxCharts);
    const charts = shown.map(async (resource): Promise<NonNullable<HomePage['charts']>> => {
      const [board] = boardFields(resource);
      const totals = board && (await boardTotals(database, resource, principalOf(member), board.field));
      const values = board?.field.values?.list ?? [];
      const largest = Math.max(...values.map((value) => totals?.get(value)?.count ?? 0));
      if (board === undefined || totals === undefined || largest <= 0) return [];
      const summed = summedField(resource);
      const path = `/setup/o/${slug}/data/${resource.name}`;
      return [
        {
          title: `${resourceLabel(resource.definition)} by ${inSentence(fieldLabel(board.field))}`,
          href: `${path}/board`,
          label: fieldLabel(board.field),
          sumLabel: summed && fieldLabel(summed),
          rows: values.map((value, index) => {
            const { count = 0, sum = null } = totals.get(value) ?? {};
            return {
              label: value,
              hue: hueAt(index),
              href: `${path}?${new URLSearchParams({ [board.field.name]: value })}`,
              count: numbers.format(count),
              share: Math.round((100 * count) / largest),
              ...(summed && sum !== null && { sum: summed.type.display?.(sum, locale) ?? sum }),
            };
          }),
        },
      ];
    });
    return (await Promise.all(charts)).flat();
  });
}

/** Returns whether a resource has a pipeline: a board in its definition, or a board that adds up an amount. */
const hasPipeline = (resource: ResourceView): boolean =>
  resource.definition.screen.isHidden !== true &&
  boardFields(resource).length > 0 &&
  (resource.definition.screen.board !== undefined || summedField(resource) !== undefined);
