import { type Placeholder, quote } from '../sql/index.ts';
import type { DeleteRules } from './delete-rules.ts';
import { referredId, referrerSource } from './link-tables.ts';
import type { OperationContext, OperationPlan } from './operation.ts';
import { organizationOf, ownRowsSql, type RowScope } from './rows.ts';
import { effectsOf, type JoinInputs } from './statements.ts';

/** Options of {@link clearReferencesSql}. */
interface ClearOptions {
  readonly join?: JoinInputs | undefined;
  /** Returns the name of the expression with a resource's deleted rows. */
  readonly deletedFrom: (resource: string) => string;
  /**
   * Returns an expression with the IDs of a resource's records that the statement deletes, if any. These records are
   * skipped, because a statement cannot also update them.
   */
  readonly deletedRows: (resource: string) => string | undefined;
}

/**
 * Returns the common table expressions that set references to deleted records to null or remove them from lists, and run the effects of the
 * updates. Foreign keys only reject remaining references. If they cleared references instead, the change log would
 * be incomplete.
 */
export const clearReferencesSql = (
  { effects, resources }: OperationContext,
  { clear }: DeleteRules,
  $: Placeholder<RowScope & Pick<OperationPlan, 'caller'>>,
  { join, deletedFrom, deletedRows }: ClearOptions,
): string =>
  [...Map.groupBy(clear, ({ resource }) => resource)]
    .map(([resource, references], index) => {
      const name = `_unlinked_${index}`;
      const row = `r${index}`;
      const table = quote(resource);
      const skipped = deletedRows(resource);
      const exclusion =
        skipped === undefined
          ? ''
          : ` and not exists (select from ${skipped} _d where _d."id" = ${row}."id")`;
      const links = references.map((reference) => {
        const { column, isList, target } = reference;
        const deleted = deletedFrom(target);
        return {
          name: column,
          isList,
          deleted,
          source: referrerSource(
            reference,
            row,
            join === undefined ? organizationOf($) : `${deleted}."organization_id"`,
          ),
          referred: referredId(reference, row),
          column: `${row}.${quote(column)}`,
          bound:
            join === undefined
              ? ownRowsSql($, row)
              : `${row}."organization_id" = ${deleted}."organization_id"`,
        };
      });
      const [first] = links;
      const isSingle = links.length === 1 && first?.isList === false;
      const assignments = links.map(({ name, isList, deleted, column, bound }) => {
        if (isList) {
          const isDeleted = `exists (select from ${deleted} where ${bound} and ${deleted}."id" = _e)`;
          return `${quote(name)} = array(select _e from unnest(${column}) _e where not ${isDeleted} order by _e)`;
        }
        const value = `case when exists (select from ${deleted} where ${bound} and ${deleted}."id" = ${column}) then null else ${column} end`;
        return `${quote(name)} = ${isSingle ? 'null' : value}`;
      });
      const update = `update ${table} ${row} set ${assignments.join(', ')}`;
      // A record can refer to deleted records through several fields, but a statement can update it only
      // once.
      const referenceRows = links.map(({ isList, source, referred, deleted, bound }) => {
        // The source of a list can refer to the deleted records.
        const rows = isList ? `${deleted} join ${source}` : `${source} join ${deleted}`;
        return `select ${row}."organization_id", ${row}."id", ${deleted}."id" as "_cause" from ${rows} on ${bound} and ${referred} = ${deleted}."id"`;
      });
      const updates =
        isSingle && first !== undefined
          ? `${update} from ${first.deleted} where ${first.bound} and ${first.column} = ${first.deleted}."id"${exclusion} returning ${row}.*, ${first.deleted}."id" as "_cause"`
          : `${update} from (${referenceRows.join(' union all ')}) _f where ${row}."organization_id" = _f."organization_id" and ${row}."id" = _f."id"${exclusion} returning ${row}.*, _f."_cause"`;
      const projection = resources.get(resource)?.projection;
      if (projection === undefined) throw new Error(`Unknown resource ${resource}`);
      const target = { definition: { name: resource }, effects, projection };
      const ofInput = join && ((alias: string) => join(alias, '_cause'));
      return `, ${name} as (${updates})${effectsOf(target, 'update', $, { name, isMany: true }, ofInput)}`;
    })
    .join('');
