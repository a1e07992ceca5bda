import type { TextRows } from '../database/index.ts';
import { fieldColumns } from '../fields/index.ts';
import { parameterIssue, parameterValue, queryShape } from '../query/index.ts';
import { column, type Prepared, prepare, record } from '../sql/index.ts';
import { type FormatName, formatOf } from './formats.ts';
import type { LinkedPlan } from './links.ts';
import { compileListScope, listColumns, listLane } from './list-scope.ts';
import type { ExportReader, OperationContext, OperationRequest } from './operation.ts';
import { projectedColumns, statementsByShape } from './projected-columns.ts';
import { rejectRequest } from './requests.ts';
import { organizationOf } from './rows.ts';

/** Records per statement if an index provides the order; otherwise each statement reads all records, so few statements must suffice. */
const batches = { list: 1000, deep: 1000, scan: 10_000 } as const;
/** Bytes of text after which a batch ends. Together with the last record, this is the memory of an export. */
const maxBytes = 4 * 1024 * 1024;

/** Exports a whole list in batches, each starting after the last record of the previous one. */
export function exporting<P extends LinkedPlan>(
  context: OperationContext,
  planOf: (request: OperationRequest) => P,
): ExportReader<P> {
  const byShape = statementsByShape<P>(context, 'export');
  const { name } = context.definition;
  const beginning = context.effects.flatMap(({ ofExport }, index) =>
    ofExport === undefined
      ? []
      : [
          prepare<P>(`${name}_export_${index}`, 'write', ($) =>
            ofExport({ resource: name, organization: organizationOf($), placeholder: $ }),
          ),
        ],
  );
  return {
    plan: (request) => {
      const plan = planOf(request);
      if (parameterValue(request.query, 'page') !== undefined) {
        rejectRequest([parameterIssue('page', 'cannot be used with this format, which contains every page')]);
      }
      return plan;
    },
    begin: (plan) => beginning.map(({ bind }) => bind(plan)),
    head: ({ asked }, format) =>
      formatOf(format).head?.(projectedColumns(context, asked).map(({ name }) => name)) ?? '',
    statement: (plan, format) =>
      byShape(`${format} ${queryShape(plan.asked)}`, (name) =>
        batchStatement(context, plan, format, name),
      ).bind(plan),
    next: (plan, rows) => {
      const place = lastPlace(plan, rows);
      if (place === undefined) return undefined;
      const sort = { ...plan.asked.sort, after: place };
      return { ...plan, asked: { ...plan.asked, sort } };
    },
  };
}

/** Returns the position of the next batch, or undefined after an empty one: other batches can end early because of their size. */
function lastPlace({ asked: { sort } }: LinkedPlan, [row]: TextRows) {
  if (row === undefined) return undefined;
  const [, , id, shown] = row;
  const { toBound: place = (text: string) => text } = sort.field.type;
  // Unsigned, because it does not leave the process.
  const unsigned = { page: '1', text: '', signature: '' };
  return { ...unsigned, id: String(id), key: shown == null ? null : place(String(shown)) };
}

/** Returns the statement of one batch, with as many records as fit. */
function batchStatement<P extends LinkedPlan>(
  context: OperationContext,
  { asked }: P,
  format: FormatName,
  name: string,
): Prepared<P> {
  const selected = { ...listColumns(context, asked), layout: formatOf(format).layout };
  const texts = context.definition.fields.flatMap(fieldColumns).filter(({ type }) => type === 'text');
  const size = ['0', ...texts.map((text) => `coalesce(octet_length(${column(text)}), 0)`)].join(' + ');
  return prepare<P>(
    name,
    'export',
    ($) => {
      const { order, shown, rowsWith } = compileListScope(
        context,
        asked,
        $,
        batches[listLane(context, asked)],
      );
      // PostgreSQL knows the length of a text without reading it.
      const before = `sum(${size}) over (order by ${order} rows unbounded preceding) - (${size})`;
      const rows = rowsWith(`${before} as "_before"`);
      return `select ${shown.columns} from (${rows}) ${record}${shown.joins} where ${record}."_before" < ${maxBytes} order by ${order}`;
    },
    selected,
  );
}
