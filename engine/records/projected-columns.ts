import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { errors } from '../errors.ts';
import { type Field, textCell, verbatim } from '../fields/index.ts';
import type { RequestedProjection } from '../query/index.ts';
import {
  column,
  identifier,
  type Placeholder,
  type Prepared,
  quote,
  record,
  type SelectedColumns,
} from '../sql/index.ts';
import { allows } from './access.ts';
import type { OperationContext, Principal } from './operation.ts';
import type { Projection } from './projection.ts';
import { type RowScope, visibleSql } from './rows.ts';

/** The key that contains expanded records in responses. Fields cannot have this name. */
const expansionColumn = { name: 'expanded', type: { encode: verbatim, csv: { encode: textCell } } };

/** Returns the columns that a request selects from each record, in order. */
export const projectedColumns = (
  { definition }: Pick<OperationContext, 'definition'>,
  { selection, expansion }: RequestedProjection,
): SelectedColumns['fields'] => {
  const fields = selection ?? definition.fields;
  return expansion.length === 0 ? fields : [...fields, expansionColumn];
};

/** Returns the SQL for the {@link projectedColumns} and the required joins. */
export function selectProjection(
  context: OperationContext,
  { selection, expansion }: RequestedProjection,
  placeholder: Placeholder<RowScope>,
): Pick<Projection, 'columns' | 'joins'> {
  const { projection } = context;
  const { columns, joins } = selection === undefined ? projection : projection.only(selection);
  if (expansion.length === 0) return { columns, joins };
  const records = expansion.map((reference) => referredRecord(context, reference, placeholder)).join(', ');
  return {
    columns: `${columns}, (select row_to_json(_e) from (select ${records}) _e) as ${quote(expansionColumn.name)}`,
    joins,
  };
}

/** Returns an SQL expression for the referenced record as JSON. It is null if the record does not exist. */
function referredRecord(
  { projections }: OperationContext,
  reference: Field,
  placeholder: Placeholder<RowScope>,
): string {
  const target = projections.get(reference.to ?? '');
  if (target === undefined) throw new Error(`${reference.name} refers to no resource`);
  // The target's projection uses the alias `record`. The reference is resolved in an inner query, where
  // `record` is still the referring record.
  const source = `select _x.* from ${quote(reference.to ?? '')} _x where ${visibleSql(placeholder, '_x')} and _x."id" = ${column(reference)}`;
  return `(select row_to_json(_r) from (select ${target.columns} from (${source}) ${record}${target.joins}) _r) as ${quote(reference.name)}`;
}

/** Checks access to the expanded resources. @throws HttpError 403 unless the caller can read them */
export function authorizeExpansion(
  { grants }: Principal,
  { expansion }: Pick<RequestedProjection, 'expansion'>,
): void {
  for (const { to = '' } of expansion) {
    if (!allows(grants, to, 'read')) throw errors.forbidden(to, 'read');
  }
}

/** Maximum number of cached statements per operation. The least recently used statement is evicted. */
const maxShapes = 500;

/**
 * Caches an operation's request-dependent statements, and prepares each of them on first use.
 * @param prefix the prefix of the statement names
 * @returns a function that returns the statement for a shape and prepares it under a unique name if necessary
 */
export function statementsByShape<Input>(
  { definition, excerpt }: OperationContext,
  prefix: string,
): (shape: string, make: (name: string) => Prepared<Input>) => Prepared<Input> {
  const cache = new LRUCache<string, Prepared<Input>>({ max: maxShapes });
  return (shape, create) => {
    const cached = cache.get(shape);
    if (cached !== undefined) return cached;
    // The name must be the same on every node and after every restart.
    const hash = createHash('sha256')
      .update(excerpt === undefined ? shape : `${excerpt} ${shape}`)
      .digest('hex')
      .slice(0, 16);
    const prepared = create(identifier(`${definition.name}_${prefix}_${hash}`));
    cache.set(shape, prepared);
    return prepared;
  };
}
