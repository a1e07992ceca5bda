import { prepare } from '../sql/index.ts';
import type { Operation, Plan } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { recordResponse } from './responses.ts';
import { type ById, identified, selectRecord, tableOf } from './statements.ts';

/** GET of one record. */
export interface ReadPlan extends Plan, ById {}

/** `GET /R/{id}`: the record, or 404. */
export const read: Operation<ReadPlan> = {
  method: 'GET',
  path: '/:id',
  action: 'read',
  status: 200,
  compile: (context) => {
    const { bind } = prepare<ReadPlan>(
      `${context.definition.name}_read`,
      'read',
      ($) => `${selectRecord(context, tableOf(context))} where ${identified($)}`,
      context.definition,
    );
    return {
      plan: (request) => {
        refuse(unknownParameters(request, commonParameters));
        return { ...planOf(request), id: recordId(request.id) };
      },
      statement: bind,
      respond: (_, rows) => recordResponse(rows),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `get${recordName}`,
    summary: `Read ${aRecord}`,
    success: { description: 'The record.', schema: recordName },
  }),
};
