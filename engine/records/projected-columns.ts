import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { errors } from '../errors.ts';
import { type Field, verbatim } from '../fields/index.ts';
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

/** The key under which expanded records are returned. No field can have this name. */
const expanded = { name: 'expanded', type: { encode: verbatim, json: { type: 'string' } } };

/** Returns the columns of each record that the request selects, in order. */
export const projectedColumns = (
  { definition }: Pick<OperationContext, 'definition'>,
  { selection, expansion }: RequestedProjection,
): SelectedColumns['fields'] => {
  const fields = selection ?? definition.fields;
  return expansion.length === 0 ? fields : [...fields, expanded];
};

/** Returns the SQL of {@link projectedColumns}, and the joins it needs. */
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
    columns: `${columns}, (select row_to_json(_e) from (select ${records}) _e) as ${quote(expanded.name)}`,
    joins,
  };
}

/** Returns SQL of the referenced record as JSON, or null if it does not exist. */
function referredRecord(
  { projections }: OperationContext,
  reference: Field,
  placeholder: Placeholder<RowScope>,
): string {
  const target = projections.get(reference.to ?? '');
  if (target === undefined) throw new Error(`${reference.name} refers to no resource`);
  // Its projection reads the alias of a record. Within the inner subquery that is still the referring one.
  const found = `select _x.* from ${quote(reference.to ?? '')} _x where ${visibleSql(placeholder, '_x')} and _x."id" = ${column(reference)}`;
  return `(select row_to_json(_r) from (select ${target.columns} from (${found}) ${record}${target.joins}) _r) as ${quote(reference.name)}`;
}

/** @throws HttpError 403 unless the caller can read the expanded resources */
export function authorizeExpansion(
  { grants }: Principal,
  { expansion }: Pick<RequestedProjection, 'expansion'>,
): void {
  for (const { to = '' } of expansion) {
    if (!allows(grants, to, 'read')) throw errors.forbidden(to, 'read');
  }
}

/** Maximum number of cached statements per operation; the least recently used is dropped and prepared again when needed. */
const maxShapes = 500;

/**
 * Caches the statements of an operation whose text depends on the request; each is prepared when first needed.
 * @param prefix of their names
 * @returns a function of the shape and of what prepares its statement under a name
 */
export function statementsByShape<Input>(
  { definition, excerpt }: OperationContext,
  prefix: string,
): (shape: string, make: (name: string) => Prepared<Input>) => Prepared<Input> {
  const made = new LRUCache<string, Prepared<Input>>({ max: maxShapes });
  return (shape, make) => {
    const known = made.get(shape);
    if (known !== undefined) return known;
    // The same shape has the same name on every node and after every restart.
    const hash = createHash('sha256')
      .update(excerpt === undefined ? shape : `${excerpt} ${shape}`)
      .digest('hex')
      .slice(0, 16);
    const prepared = make(identifier(`${definition.name}_${prefix}_${hash}`));
    made.set(shape, prepared);
    return prepared;
  };
}
