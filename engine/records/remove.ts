import { foreignKeyViolation, sqlState } from '../database/index.ts';
import { type Placeholder, quote, record } from '../sql/index.ts';
import { conditionsOf } from './conditions.ts';
import type { Operation, OperationContext } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { foundRow } from './responses.ts';
import { type Scope, visible } from './rows.ts';
import { effectsOf, prepareById, tableOf, type WriteById } from './statements.ts';

/** `DELETE /R/{id}`: the record is gone; references to it are null. */
export const remove: Operation<WriteById> = {
  method: 'DELETE',
  path: '/:id',
  action: 'delete',
  status: 200,
  compile: (context) => {
    const statement = prepareById<WriteById>(
      context,
      `${context.definition.name}_delete`,
      1,
      ($, where) =>
        `with _written as (delete from ${tableOf(context)} ${record} where ${where} returning "organization_id", "id")${unlinked(context, $)}${effectsOf(context, 'delete', $)} select 1 from _written`,
    );
    return {
      plan: (request) => {
        refuse(unknownParameters(request, commonParameters));
        const conditions = conditionsOf(context, request);
        return { ...planOf(request), conditions, id: recordId(request.id) };
      },
      statement,
      // A reference that was written meanwhile; PostgreSQL makes it null by itself, Citus does not.
      retryable: (cause) => sqlState(cause) === foreignKeyViolation,
      respond: (_, rows) => {
        foundRow(rows);
        return { body: '{"ok":true}' };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `delete${recordName}`,
    summary: `Delete ${aRecord}`,
    success: { description: 'The record is gone; references to it became null.', schema: 'Deleted' },
  }),
};

/**
 * Makes the references to the deleted record null. The foreign keys would do that too, but not on Citus, which has no
 * `on delete set null` for keys that include the organization.
 */
const unlinked = ({ referrers }: OperationContext, placeholder: Placeholder<Scope>): string =>
  referrers
    .map(({ resource, field }, index) => {
      const referrer = `r${index}`;
      const refers = `${visible(placeholder, referrer)} and ${referrer}.${quote(field)} = _written."id"`;
      return `, _unlinked_${index} as (update ${quote(resource)} ${referrer} set ${quote(field)} = null from _written where ${refers})`;
    })
    .join('');
