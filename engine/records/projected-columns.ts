import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { textCell, verbatim } from '../fields/index.ts';
import type { RequestedProjection } from '../query/index.ts';
import { identifier, type Placeholder, type Prepared, type SelectedColumns } from '../sql/index.ts';
import { expandedKey, expandedSql } from './expanded.ts';
import type { OperationContext } from './operation.ts';
import type { Projection } from './projection.ts';
import type { CallerScope } from './rows.ts';

/** The key that contains expanded records in responses. Fields cannot have this name. */
const expansionColumn = { name: expandedKey, type: { encode: verbatim, csv: { encode: textCell } } };

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
  placeholder: Placeholder<CallerScope>,
): Pick<Projection, 'columns' | 'joins'> {
  const { projection } = context;
  const { columns, joins } = selection === undefined ? projection : projection.only(selection);
  return { columns: `${columns}${expandedSql(context, expansion, placeholder)}`, joins };
}

/** Maximum number of cached statements per operation. The least recently used statement is evicted. */
const maxShapes = 500;

/**
 * Caches an operation's request-dependent statements, and prepares each of them on first use.
 * @param prefix the prefix of the statement names
 * @returns a function that returns the statement for a shape and prepares it under a unique name if necessary
 */
export function statementsByShape<Input>(
  { definition, excerpt, view, trashed }: OperationContext,
  prefix: string,
): (shape: string, make: (name: string) => Prepared<Input>) => Prepared<Input> {
  const cache = new LRUCache<string, Prepared<Input>>({ max: maxShapes });
  return (shape, create) => {
    const cached = cache.get(shape);
    if (cached !== undefined) return cached;
    // The name must be the same on every node and after every restart.
    const hash = createHash('sha256')
      .update(
        [
          ...(view === '' ? [] : [view]),
          ...(excerpt === undefined ? [] : [excerpt]),
          ...(trashed === undefined ? [] : [`trashed ${trashed}`]),
          shape,
        ].join(' '),
      )
      .digest('hex')
      .slice(0, 16);
    const prepared = create(identifier(`${definition.name}_${prefix}_${hash}`));
    cache.set(shape, prepared);
    return prepared;
  };
}
