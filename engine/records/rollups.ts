import { type Field, rollupSql } from '../fields/index.ts';
import { column, quote, record } from '../sql/index.ts';
import { trashSql, type VisibleResource } from './rows.ts';

/** Alias of the table with the records that a rollup combines. */
const child = '_c';

/** All resources, by name. */
export type CombinedResources = ReadonlyMap<string, Pick<VisibleResource, 'stored'>>;

/**
 * Returns an SQL expression for the value of a rollup. It combines all records that refer to the record and are not in the
 * trash, whatever the caller can see, except the record itself.
 * @param owner name of the resource to which the rollup belongs
 */
export const rollupValueSql = (field: Field, owner: string, resources: CombinedResources): string =>
  combinedSql(field, owner, resources, (value) => field.type.read?.([value]) ?? value);

/** Returns an SQL expression for the value of a rollup as in its column; see {@link rollupValueSql}. */
export const rollupColumnSql = (field: Field, owner: string, resources: CombinedResources): string =>
  combinedSql(field, owner, resources, (value) => value);

/** Returns a subquery for the value of a rollup. @param format returns the form of the value */
function combinedSql(
  field: Field,
  owner: string,
  resources: CombinedResources,
  format: (value: string) => string,
): string {
  const { rollup } = field;
  const target = resources.get(rollup?.of ?? '');
  if (rollup === undefined || target === undefined) throw new Error(`${field.name} is not a rollup`);
  const conditions = [
    `${child}."organization_id" = ${record}."organization_id"`,
    `${column({ name: rollup.by }, child)} = ${record}."id"`,
    // In the statement that writes a record, its table still contains the previous version.
    ...(target.stored.name === owner ? [`${child}."id" <> ${record}."id"`] : []),
    ...(rollup.condition === undefined ? [] : [rollup.condition.sql((name) => column({ name }, child))]),
  ];
  const value = rollupSql(field, rollup.field && column(rollup.field, child));
  const where = `${conditions.join(' and ')}${trashSql({ definition: target.stored }, child)}`;
  return `(select ${format(value)} from ${quote(target.stored.name)} ${child} where ${where})`;
}
