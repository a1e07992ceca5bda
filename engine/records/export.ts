import { Readable } from 'node:stream';
import { boundToRequest, type Database, type TextRows } from '../database/index.ts';
import { customCells, customName, fieldColumns } from '../fields/index.ts';
import {
  expandedRecords,
  isGroup,
  parameterIssue,
  parameterValue,
  queryShape,
  readsBackward,
} from '../query/index.ts';
import { column, type Prepared, prepare, record, separators } from '../sql/index.ts';
import { execute } from './execute.ts';
import { authorizeEmails, authorizeExpansion } from './expanded.ts';
import { type FormatName, formatOf } from './formats.ts';
import {
  compileListScope,
  decodePage,
  type ListPlan,
  lastPosition,
  listColumns,
  listLane,
} from './list-scope.ts';
import type { ExportReader, ListInput, OperationContext, OperationPlan } from './operation.ts';
import { projectedColumns, statementsByShape } from './projected-columns.ts';
import { rejectRequest } from './requests.ts';
import { organizationOf } from './rows.ts';
import { statementName } from './statements.ts';

/**
 * Number of records per statement. Scans use larger batches, because every statement reads all records if no
 * index provides the order.
 */
const batchSizes = { list: 1000, deep: 1000, scan: 10_000 } as const;
/** Text size after which a batch ends, in bytes. An export uses this much memory plus the last record. */
const maxBytes = 4 * 1024 * 1024;

/** Exports a whole list in batches, each starting after the previous batch's last record. */
export function exportReader<P extends ListPlan, Input extends ListInput>(
  context: OperationContext,
  planOf: (input: Input) => P,
): ExportReader<P, Input> {
  const byShape = statementsByShape<P>(context, 'export');
  const { name } = context.definition;
  const exportEffects = context.effects.flatMap(({ ofExport }, index) =>
    ofExport === undefined
      ? []
      : [
          prepare<P>(statementName(context, `export_${index}`), 'write', ($) =>
            ofExport({ resource: name, organization: organizationOf($), placeholder: $ }),
          ),
        ],
  );
  return {
    plan: (input) => {
      const plan = planOf(input);
      if (parameterValue(plan.query, 'page') !== undefined) {
        rejectRequest([parameterIssue('page', 'cannot be used with this format, which returns all pages')]);
      }
      const { after } = plan.parsedQuery.sort;
      if (after !== undefined && readsBackward(after)) {
        const message =
          'of a previous page cannot be used with this format, which returns all following pages';
        rejectRequest([parameterIssue('cursor', message)]);
      }
      if (expandedRecords(plan.parsedQuery.expansion) > 0) {
        const message = 'cannot contain lists or second-level names with this format';
        rejectRequest([parameterIssue('expand', message)]);
      }
      return plan;
    },
    authorizeRelated: ({ parsedQuery: { expansion }, caller }, principal) => {
      authorizeExpansion(context, principal, expansion);
      authorizeEmails(caller.principal, principal, expansion);
    },
    begin: (plan) => exportEffects.map(({ bind }) => bind(plan)),
    head: ({ parsedQuery: query, customFields = [] }, format) =>
      formatOf(format).head?.(
        projectedColumns(context, query).flatMap(({ name }) =>
          name === customName && customFields.length > 0 ? customFields.map((field) => field.name) : [name],
        ),
      ) ?? '',
    statement: (plan, format) =>
      // If the columns depend on the organization or conditions are grouped, the statement is neither named nor cached.
      hasCustomCells(plan, format) || plan.parsedQuery.filters.some(isGroup)
        ? batchStatement(context, plan, format, '').bind(plan)
        : byShape(`${format} ${queryShape(plan.parsedQuery)}`, (name) =>
            batchStatement(context, plan, format, name),
          ).bind(plan),
    // A batch with fewer records is not necessarily the last, because the byte limit can end it early.
    batch: (plan, [row]) => {
      if (row === undefined) return undefined;
      const page = decodePage(plan.parsedQuery, row);
      // The cursor is not signed because it does not leave the process.
      const after = { page: '1', text: '', signature: '', ...lastPosition(plan.parsedQuery, page) };
      const sort = { ...plan.parsedQuery.sort, after };
      return { bytes: page.json, next: { ...plan, parsedQuery: { ...plan.parsedQuery, sort } } };
    },
  };
}

/** Returns whether an export has a column for each custom field. */
const hasCustomCells = ({ customFields = [] }: ListPlan, format: FormatName): boolean =>
  format === 'csv' && customFields.length > 0;

/** Returns a batch's statement, which selects as many records as fit. */
function batchStatement<P extends ListPlan>(
  context: OperationContext,
  plan: P,
  format: FormatName,
  name: string,
): Prepared<P> {
  const { parsedQuery: query, customFields = [] } = plan;
  const columns = listColumns(context, query);
  const selectedColumns = {
    ...columns,
    ...(hasCustomCells(plan, format) && {
      fields: columns.fields.map((field) =>
        field.name === customName
          ? { ...field, type: { ...field.type, csv: customCells(customFields) } }
          : field,
      ),
    }),
    layout: formatOf(format).layout,
  };
  const texts = context.definition.fields.flatMap(fieldColumns).filter(({ type }) => type === 'text');
  const size = ['0', ...texts.map((text) => `coalesce(octet_length(${column(text)}), 0)`)].join(' + ');
  return prepare<P>(
    name,
    'export',
    ($) => {
      const { order, projection, rowsWith } = compileListScope(
        context,
        query,
        $,
        batchSizes[listLane(context, query)],
      );
      // PostgreSQL can determine the length of a text value without reading it.
      const precedingBytes = `sum(${size}) over (order by ${order} rows unbounded preceding) - (${size})`;
      const rows = rowsWith(`${precedingBytes} as "_before"`);
      return `select ${projection.columns} from (${rows}) ${record}${projection.joins} where ${record}."_before" < ${maxBytes} order by ${order}`;
    },
    selectedColumns,
  );
}

/**
 * Returns a plan's complete result as a byte stream. However slowly the client reads, at most two batches are
 * in memory, and no connection is occupied between batches. The stream occupies a slot until it is consumed
 * or destroyed.
 * @param assertAllowed called before each batch is sent; the stream fails if it rejects
 * @throws HttpError if the first batch fails in {@link execute}; later errors make the stream fail
 */
export function exportStream<P extends OperationPlan>(
  database: Database,
  operation: Omit<ExportReader<P>, 'plan'>,
  plan: P,
  format: FormatName,
  assertAllowed: () => Promise<void> = async () => {},
): Promise<Readable> {
  return new Promise((resolve, reject) => {
    const { organization } = plan;
    const send = async () => {
      const chunks = batches(database, operation, plan, format, assertAllowed);
      const first = await chunks.next();
      const stream = Readable.from(boundToRequest(prepend(first, chunks)), { objectMode: false });
      const closed = new Promise<void>((done) => stream.once('close', done));
      resolve(stream);
      await closed;
    };
    database.schedule(send, { organization, lane: 'stream' }).catch(reject);
  });
}

/** Yields the text of each batch. The next batch is read while the previous one is sent. */
async function* batches<P extends OperationPlan>(
  database: Database,
  { begin, head, statement, batch }: Omit<ExportReader<P>, 'plan'>,
  first: P,
  format: FormatName,
  assertAllowed: () => Promise<void>,
): AsyncGenerator<Buffer, undefined> {
  const read = (plan: P): Promise<TextRows> => {
    const rows = execute(database, { statement: () => statement(plan, format) }, plan);
    // Prevents an unhandled rejection if the stream is destroyed before the rows are awaited.
    rows.catch(() => {});
    return rows;
  };
  const separator = Buffer.from(separators[formatOf(format).layout]);
  for (const effect of begin(first)) await execute(database, { statement: () => effect }, first);
  let current = batch(first, await read(first));
  yield Buffer.from(head(first, format));
  while (current !== undefined) {
    // Checked just before sending, because a slow client can delay a batch indefinitely after it was read.
    await assertAllowed();
    const { bytes, next } = current;
    const nextRows = next && read(next);
    yield typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
    yield separator;
    current = next && nextRows && batch(next, await nextRows);
  }
  return undefined;
}

async function* prepend(
  { done, value }: IteratorResult<Buffer, undefined>,
  rest: AsyncGenerator<Buffer, undefined>,
): AsyncGenerator<Buffer> {
  if (!done && value.length > 0) yield value;
  yield* rest;
}
