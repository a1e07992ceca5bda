import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Rows } from '../database/index.ts';
import { columnsOf } from '../fields/index.ts';
import { queryShape, wrong } from '../query/index.ts';
import { column, identifier, type Prepared, prepare, record } from '../sql/index.ts';
import { type FormatName, formatOf } from './formats.ts';
import type { Linked } from './links.ts';
import type { Exporting, OperationContext, OperationRequest } from './operation.ts';
import { refuse } from './requests.ts';
import { laneOf, selectionOf } from './selection.ts';

/** Records of one statement where an index gives them in their order; else each statement reads all, so few must do. */
const batches = { list: 1000, deep: 1000, scan: 10_000 } as const;
/** Bytes of texts after which a batch has no further record: with the last one, what a process holds of an export. */
const maxBytes = 4 * 1024 * 1024;
/** Statements kept for one resource; the least recently used is dropped and prepared again when needed. */
const maxShapes = 100;

/** The whole of a list in another format, in batches that each begin after the last record of the one before. */
export function exporting<P extends Linked>(
  context: OperationContext,
  planOf: (request: OperationRequest) => P,
): Exporting<P> {
  const { definition } = context;
  const names = definition.fields.map(({ name }) => name);
  const made = new LRUCache<string, Prepared<P>>({ max: maxShapes });
  return {
    plan: (request) => {
      const plan = planOf(request);
      if (request.query.page !== undefined) {
        refuse([wrong('page', 'must not be given: every page is sent in this format')]);
      }
      return plan;
    },
    head: (format) => formatOf(format).head?.(names) ?? '',
    statement: (plan, format) => {
      const shape = queryShape(plan.asked);
      const known = made.get(`${format} ${shape}`);
      const prepared = known ?? batchStatement(context, plan, format, shape);
      if (known === undefined) made.set(`${format} ${shape}`, prepared);
      return prepared.bind(plan);
    },
    next: (plan, rows) => {
      const place = lastPlace(plan, rows);
      if (place === undefined) return undefined;
      const sort = { ...plan.asked.sort, after: place };
      return { ...plan, asked: { ...plan.asked, sort } };
    },
  };
}

/** Where the next batch begins; undefined after an empty one, for any other may have ended early. */
function lastPlace({ asked: { sort } }: Linked, [row]: Rows) {
  if (row === undefined) return undefined;
  const [, , id, shown] = row;
  const { place = (text: string) => text } = sort.field.type;
  // It is not signed, because it does not leave the process.
  const unsigned = { page: '1', text: '', signature: '' };
  return { ...unsigned, id: String(id), key: shown == null ? null : place(String(shown)) };
}

/** The statement of one batch: as many records as fit. */
function batchStatement<P extends Linked>(
  context: OperationContext,
  { asked }: P,
  format: FormatName,
  shape: string,
): Prepared<P> {
  const { definition, projection } = context;
  const hash = createHash('sha256').update(shape).digest('hex').slice(0, 16);
  const name = identifier(`${definition.name}_export_${hash}`);
  const { layout } = formatOf(format);
  const selected = { fields: definition.fields, last: ['id', asked.sort.field.name], layout };
  const texts = definition.fields.flatMap(columnsOf).filter(({ type }) => type === 'text');
  const size = ['0', ...texts.map((text) => `coalesce(octet_length(${column(text)}), 0)`)].join(' + ');
  return prepare<P>(
    name,
    'export',
    ($) => {
      const { order, rowsOf } = selectionOf(context, asked, $, batches[laneOf(context, asked)]);
      // The length of a text is known without reading the text.
      const before = `sum(${size}) over (order by ${order} rows unbounded preceding) - (${size})`;
      const rows = rowsOf(`${record}.*, ${before} as "_before"`);
      return `select ${projection.columns} from (${rows}) ${record}${projection.joins} where ${record}."_before" < ${maxBytes} order by ${order}`;
    },
    selected,
  );
}
