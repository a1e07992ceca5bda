import { prepare } from '../sql/index.ts';
import { assignments, type Writing } from './assignments.ts';
import type { Operation, Plan } from './operation.ts';
import { missingReferences } from './references.ts';
import { planOf, validBody } from './requests.ts';
import { recordResponse } from './responses.ts';
import { organizationOf } from './rows.ts';
import { tableOf, writeStatement } from './statements.ts';

/** POST of a record. */
export interface CreatePlan extends Plan, Writing {
  readonly caller: Plan['caller'];
}

/** `POST /R`: a new record; absent fields get their defaults, read-only ones what the server sets. */
export const create: Operation<CreatePlan> = {
  method: 'POST',
  path: '',
  action: 'create',
  status: 201,
  compile: (context) => {
    const { definition, body } = context;
    const { bind } = prepare<CreatePlan>(`${definition.name}_create`, 'write', ($) => {
      organizationOf($);
      const assigned = assignments(definition.fields, 'create', $);
      const columns = assigned.map(({ column }) => column).join(', ');
      const values = assigned.map(({ value }) => value).join(', ');
      const insert = `insert into ${tableOf(context)} (${columns}) values (${values})`;
      return writeStatement(context, 'create', insert, $);
    });
    return {
      plan: (request) => ({ ...planOf(request), body: validBody(body, request) }),
      statement: bind,
      respond: (_, rows) => recordResponse(context, rows),
      createdId: (rows) => String(rows[0]?.[1]),
      ...missingReferences(context),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `create${recordName}`,
    summary: `Create ${aRecord}`,
    body: { schema: `${recordName}Input` },
    success: { description: 'The created record.', schema: recordName },
  }),
};
