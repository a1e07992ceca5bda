import { record } from '../sql/index.ts';
import { type Assignment, assignments, type Writing } from './assignments.ts';
import { conditionsOf } from './conditions.ts';
import type { Operation } from './operation.ts';
import { missingReferences } from './references.ts';
import { planOf, recordId, validBody } from './requests.ts';
import { recordResponse } from './responses.ts';
import { prepareById, tableOf, type WriteById, writeStatement } from './statements.ts';

/** PUT of a record. */
export interface ReplacePlan extends WriteById, Writing {
  readonly caller: WriteById['caller'];
}

/** `PUT /R/{id}`: every writable field as a POST of the same body would make it; read-only ones stay. */
export const replace: Operation<ReplacePlan> = {
  method: 'PUT',
  path: '/:id',
  action: 'update',
  status: 200,
  compile: (context) => {
    const { definition, body } = context;
    const statement = prepareById<ReplacePlan>(context, `${definition.name}_replace`, 3, ($, where) => {
      const set = setClause(assignments(definition.fields, 'update', $));
      const update = `update ${tableOf(context)} ${record} set ${set} where ${where}`;
      return writeStatement(context, 'update', update, $);
    });
    return {
      plan: (request) => ({
        ...planOf(request),
        body: validBody(body, request),
        conditions: conditionsOf(context, request),
        id: recordId(request.id),
      }),
      statement,
      respond: (_, rows) => recordResponse(context, rows),
      ...missingReferences(context),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `replace${recordName}`,
    summary: `Replace ${aRecord}`,
    body: {
      description: 'Every field to keep. A writable field that is absent gets its default.',
      schema: `${recordName}Input`,
    },
    success: { description: 'The record as it is now.', schema: recordName },
  }),
};

/** SET of an UPDATE. Without anything to write the statement still finds out whether the record exists. */
export const setClause = (assigned: readonly Assignment[]): string =>
  assigned.length === 0
    ? `"id" = ${record}."id"`
    : assigned.map(({ column, value }) => `${column} = ${value}`).join(', ');
