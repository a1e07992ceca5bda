import { errors } from '../errors.ts';
import { prepare } from '../sql/index.ts';
import { type Conditional, conditionsOf, unmet } from './conditions.ts';
import type { Operation, Plan } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { foundRow, recordResponse } from './responses.ts';
import { type ById, identified, selectRead } from './statements.ts';

/** GET of one record. */
export interface ReadPlan extends Plan, ById, Conditional {}

/** `GET /R/{id}`: the record, or 404; 304 if the caller has it as it is. */
export const read: Operation<ReadPlan> = {
  method: 'GET',
  path: '/:id',
  action: 'read',
  status: 200,
  compile: (context) => {
    const { bind } = prepare<ReadPlan>(
      `${context.definition.name}_read`,
      'read',
      ($) => `${selectRead(context)} where ${identified($)}`,
      { fields: context.definition.fields, further: ['_versions'] },
    );
    return {
      plan: (request) => {
        refuse(unknownParameters(request, commonParameters));
        const conditions = conditionsOf(context, request);
        return { ...planOf(request), conditions, id: recordId(request.id) };
      },
      statement: bind,
      readsOnly: true,
      respond: ({ conditions }, rows) => {
        const response = recordResponse(context, rows);
        const failed = conditions && unmet(conditions, foundRow(rows)[1]);
        if (failed === 'match') throw errors.preconditionFailed();
        return failed === undefined ? response : { ...response, body: '', status: 304 };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `get${recordName}`,
    summary: `Read ${aRecord}`,
    success: { description: 'The record.', schema: recordName },
  }),
};
