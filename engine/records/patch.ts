import { literal, record } from '../sql/index.ts';
import { type Assignment, assignments, type Writing } from './assignments.ts';
import { bodyRules } from './body.ts';
import { conditionsOf } from './conditions.ts';
import type { Operation } from './operation.ts';
import { mergePatchTypes } from './read-body.ts';
import { missingReferences } from './references.ts';
import { planOf, recordId, validBody } from './requests.ts';
import { recordResponse } from './responses.ts';
import type { WriteById } from './statements.ts';
import { prepareUpdate } from './update.ts';

/** PATCH of a record; the body has the fields to write. */
export interface PatchPlan extends WriteById, Writing {
  readonly caller: WriteById['caller'];
  /** The names of the writable fields that the body has. */
  readonly given: readonly string[];
}

/** `PATCH /R/{id}`: a JSON merge patch (RFC 7396). Fields that the body does not have stay as they are. */
export const patch: Operation<PatchPlan> = {
  method: 'PATCH',
  path: '/:id',
  action: 'update',
  status: 200,
  compile: (context) => {
    const { definition } = context;
    const isRequired = definition.fields.some(({ required }) => required);
    const rules = isRequired ? bodyRules(definition.fields, true) : context.body;
    const writable = definition.fields.filter(({ readOnly }) => !readOnly);
    const statement = prepareUpdate<PatchPlan>(context, `${definition.name}_patch`, ($) => {
      const given = `${$((plan) => plan.given)}::text[]`;
      return definition.fields.flatMap((field): Assignment[] => {
        const written = assignments([field], 'update', $);
        if (field.readOnly) return written;
        // One statement for every choice of fields, so that the server keeps its plan.
        return written.map(({ column, value }) => ({
          column,
          value: `case when ${literal(field.name)} = any(${given}) then ${value} else ${record}.${column} end`,
        }));
      });
    });
    return {
      plan: (request) => {
        const body = validBody(rules, request, mergePatchTypes);
        return {
          ...planOf(request),
          body,
          given: writable.flatMap(({ name }) => (body[name] === undefined ? [] : [name])),
          conditions: conditionsOf(context, request),
          id: recordId(context, request),
        };
      },
      statement,
      respond: (_, rows) => recordResponse(context, rows),
      ...missingReferences(context),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `patch${recordName}`,
    summary: `Change fields of ${aRecord}`,
    body: {
      description: 'The fields to change (JSON merge patch, RFC 7396). The others stay as they are.',
      schema: `${recordName}Patch`,
      types: mergePatchTypes,
    },
    success: { description: 'The record as it is now.', schema: recordName },
  }),
};
