import { record } from '../sql/index.ts';
import { conditionsOf } from './conditions.ts';
import type { Operation } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { foundRow } from './responses.ts';
import { prepareById, tableOf, type WriteById } from './statements.ts';

/** `DELETE /R/{id}`: the record is gone; the database sets references to it to null. */
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
      change: (_, source, condition) =>
        `delete from ${table} ${record}${source === undefined ? '' : ` using ${source}`} where ${condition} returning ${record}."organization_id", ${record}."id"`,
      result: (further = '', join = '') => `select 1${further} from _written ${record}${join}`,
    });
    return {
      plan: (request) => {
        refuse(unknownParameters(request, commonParameters));
        const conditions = conditionsOf(context, request);
        return { ...planOf(request), conditions, id: recordId(context, request) };
      },
      statement,
      respond: (_, rows) => {
        foundRow(context, rows);
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
