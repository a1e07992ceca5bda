import { errors } from '../errors.ts';
import { prepare, record } from '../sql/index.ts';
import type { Operation, Plan } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { type ById, effectsOf, identified, tableOf } from './statements.ts';

/** DELETE of a record. */
export interface RemovePlan extends Plan, ById {}

/** `DELETE /R/{id}`: the record is gone; the database sets references to it to null. */
export const remove: Operation<RemovePlan> = {
  method: 'DELETE',
  path: '/:id',
  action: 'delete',
  status: 200,
  compile: (context) => {
    const { bind } = prepare<RemovePlan>(
      `${context.definition.name}_delete`,
      'write',
      ($) =>
        `with _written as (delete from ${tableOf(context)} ${record} where ${identified($)} returning "organization_id", "id")${effectsOf(context, 'delete', $)} select 1 from _written`,
    );
    return {
      plan: (request) => {
        refuse(unknownParameters(request, commonParameters));
        return { ...planOf(request), id: recordId(request.id) };
      },
      statement: bind,
      respond: (_, rows) => {
        if (rows.length === 0) throw errors.notFound();
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
