import { foreignKeyViolation, sqlState } from '../database/index.ts';
import { type Placeholder, quote, record } from '../sql/index.ts';
import type { Operation, OperationContext, OperationPlan } from './operation.ts';
import { parsePreconditions } from './preconditions.ts';
import { commonParameters, planRequest, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { recordRow } from './responses.ts';
import { type RowScope, visibleSql } from './rows.ts';
import { effectsOf, type JoinInputs, prepareById, tableOf, type WriteById } from './statements.ts';

/** Returns whether a delete was rejected because of a concurrently written reference; a retry sees the reference. */
export const isReferenceConflict = (cause: unknown): boolean => sqlState(cause) === foreignKeyViolation;

/** `DELETE /R/{id}`: deletes the record and sets references to it to null. */
export const remove: Operation<WriteById> = {
  method: 'DELETE',
  path: '/:id',
  action: 'delete',
  status: 200,
  compile: (context) => {
    const table = tableOf(context);
    const statement = prepareById<WriteById>(context, 1, {
      name: `${context.definition.name}_delete`,
      action: 'delete',
      // A statement cannot both delete a record and change it, as when it refers to another one that is deleted.
      isAlone: context.referrers.some(({ resource }) => resource === context.definition.name),
      change: (_, source, condition) =>
        `delete from ${table} ${record}${source === undefined ? '' : ` using ${source}`} where ${condition} returning ${record}.*`,
      further: ($, join) => clearReferencesSql(context, $, { join }),
      result: (number = '', join = '') => `select ${number}1 from _written ${record}${join}`,
    });
    return {
      plan: (request) => {
        rejectRequest(unknownParameters(request, commonParameters));
        const conditions = parsePreconditions(context, request);
        return { ...planRequest(request), conditions, id: recordId(context, request) };
      },
      statement,
      retryable: isReferenceConflict,
      respond: (_, rows) => {
        recordRow(context, rows);
        return { body: '{"ok":true}' };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `delete${recordName}`,
    summary: `Delete ${aRecord}`,
    success: { description: 'The record was deleted. References to it were set to null.', schema: 'Deleted' },
  }),
};

/** Which rows {@link clearReferencesSql} skips, and how it finds its inputs. */
interface Unlinking {
  readonly join?: JoinInputs | undefined;
  /** An expression with the ids of records that the statement deletes: they cannot be changed as well. */
  readonly deleted?: string;
}

/**
 * Makes the references to what `_written` deleted null, each a change of its record with its effects. The foreign keys
 * only reject remaining references: the database never changes records by itself, so that the change log is complete.
 */
export const clearReferencesSql = (
  { definition, referrers, effects, projections }: OperationContext,
  $: Placeholder<RowScope & Pick<OperationPlan, 'caller'>>,
  { join, deleted }: Unlinking,
): string =>
  [...Map.groupBy(referrers, ({ resource }) => resource)]
    .map(([resource, references], index) => {
      const name = `_unlinked_${index}`;
      const row = `r${index}`;
      const table = quote(resource);
      const sameOrganization = (alias: string) =>
        join === undefined ? visibleSql($, alias) : `${alias}."organization_id" = _written."organization_id"`;
      const left =
        deleted === undefined || resource !== definition.name
          ? ''
          : ` and not exists (select from ${deleted} _d where _d."id" = ${row}."id")`;
      const bound = sameOrganization(row);
      const [first, ...more] = references.map(({ field }) => `${row}.${quote(field)}`);
      const update = `update ${table} ${row} set ${references.map(({ field }) => `${quote(field)} = ${more.length === 0 ? 'null' : `case when exists (select from _written where ${bound} and _written."id" = ${row}.${quote(field)}) then null else ${row}.${quote(field)} end`}`).join(', ')}`;
      // Several fields of a record can refer to a deleted record, but a statement can update a record only once.
      const found = [first, ...more].map(
        (field) =>
          `select ${row}."organization_id", ${row}."id", _written."id" as "_cause" from ${table} ${row} join _written on ${bound} and ${field} = _written."id"`,
      );
      const changed =
        more.length === 0
          ? `${update} from _written where ${bound} and ${first} = _written."id"${left} returning ${row}.*, _written."id" as "_cause"`
          : `${update} from (${found.join(' union all ')}) _f where ${row}."organization_id" = _f."organization_id" and ${row}."id" = _f."id"${left} returning ${row}.*, _f."_cause"`;
      const projection = projections.get(resource);
      if (projection === undefined) throw new Error(`Unknown resource ${resource}`);
      const recorded = { definition: { name: resource }, effects, projection };
      const ofInput = join && ((alias: string) => join(alias, '_cause'));
      return `, ${name} as (${changed})${effectsOf(recorded, 'update', $, { name }, ofInput)}`;
    })
    .join('');
