import { fieldTypes } from '../fields/index.ts';
import { literal, record } from '../sql/index.ts';
import { assign, assignIf, assignmentsOf, bodyParameters, type WriteValues } from './assignments.ts';
import {
  allFoundSql,
  type BatchPlan,
  batchLimits,
  batchLimitText,
  batchPlan,
  batchResult,
  envelopeOf,
  explainItems,
  idOf,
  lockedItemsSql,
  missingIndexes,
  missingResults,
  objectOf,
  prepareBatch,
  resultsSql,
  splitterOf,
  successSql,
  updateItems,
} from './batch.ts';
import { type BodyRules, bodyRules, writableLists } from './body.ts';
import { customFieldsOf, withCustomValues } from './custom-fields.ts';
import { itemId } from './items.ts';
import { keepingHidden } from './link-tables.ts';
import type { BodyInput, Operation, OperationContext, UpdateInput } from './operation.ts';
import { preconditionsOf } from './preconditions.ts';
import { mergePatchTypes } from './read-body.ts';
import { createAssigneeFinder, createRejectionFinder, explainRejection } from './rejections.ts';
import { basePlan, recordId, rejectRequest, validBody } from './requests.ts';
import { type BatchResult, etagHeader, type RecordResult } from './results.ts';
import { organizationOf, visibleSql } from './rows.ts';
import { prepareUpdate, recordResult, type WriteById } from './statements.ts';

/** The plan for a PATCH request. */
export interface PatchPlan extends WriteById, WriteValues {
  readonly caller: WriteById['caller'];
  /** Names of the writable fields in the body. */
  readonly fieldNames: readonly string[];
}

/** Returns rules for bodies in which required fields can be absent. */
export const patchRules = ({ definition, stored, body }: OperationContext): BodyRules =>
  definition.fields.some(({ required }) => required)
    ? bodyRules(definition.fields, stored.fields, true, writableLists(definition))
    : body;

/** `PATCH /R/{id}`: a JSON merge patch (RFC 7396). Fields absent from the body are not changed. */
export const patch: Operation<PatchPlan, UpdateInput, RecordResult> = {
  method: 'PATCH',
  path: '/:id',
  action: 'update',
  status: 200,
  responseHeaders: etagHeader,
  body: { types: mergePatchTypes },
  compile: (context) => {
    const { definition } = context;
    const rules = patchRules(context);
    const writable = definition.fields.filter(({ readOnly }) => !readOnly);
    const { statement, written } = prepareUpdate<PatchPlan>(context, 'patch', ($) => {
      const names = `${$((plan) => plan.fieldNames)}::text[]`;
      return assignmentsOf(definition, 'update', $, (field) =>
        // The statement is the same for any combination of fields, so that the server can reuse its plan.
        assignIf(
          `${literal(field.name)} = any(${names})`,
          keepingHidden(field, context.resources, $, assign<PatchPlan>(field, $, bodyParameters(field))),
        ),
      );
    });
    return {
      plan: (input) => {
        const body = validBody(rules, input, definition, 'update');
        return {
          ...basePlan(input),
          body,
          fieldNames: writable.flatMap(({ name }) => (body[name] === undefined ? [] : [name])),
          conditions: preconditionsOf(context, input),
          id: recordId(context, input),
        };
      },
      statement,
      result: (plan, rows) => recordResult(context, written(plan, rows)),
      ...explainRejection<PatchPlan>(context, 'patch', ({ id, body }) => ({ id, body })),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `patch${recordName}`,
    summary: `Change fields of ${aRecord}`,
    body: {
      description: 'The fields to change (JSON merge patch, RFC 7396). Other fields are not changed.',
      schema: `${recordName}Patch`,
    },
    success: { description: 'The updated record.', schema: recordName },
  }),
};

/**
 * `PATCH /R/batch`: updates up to 1,000 records in one statement. Each item contains its ID and the fields to
 * change.
 */
export const patchBatch: Operation<BatchPlan, BodyInput, BatchResult, Promise<BatchPlan>> = {
  method: 'PATCH',
  path: '/batch',
  action: 'update',
  status: 200,
  isBatch: true,
  body: batchLimits,
  compile: (context) => {
    const { definition, items: table } = context;
    const rules = patchRules(context);
    const { bind } = prepareBatch<BatchPlan>(($) => {
      organizationOf($);
      const assignments = assignmentsOf(definition, 'update', $, (field) =>
        assignIf(table.hasField(field), keepingHidden(field, context.resources, $, table.assignments(field))),
      );
      const lockedItems = lockedItemsSql(
        context,
        `${visibleSql(context, 'update', $)} and ${record}."id" = ${itemId}`,
      );
      const write = updateItems(context, assignments, $, '_written', allFoundSql($));
      const results = [`select _f._n, ${successSql(200, '_f."id"')} from _found _f`, missingResults($)];
      return `with ${table.expression($)}, ${lockedItems}, ${write} select ${resultsSql($, results)}, ${missingIndexes}`;
    });
    const finder = createRejectionFinder(context, table, 'patch');
    const assignees = createAssigneeFinder(context, table, 'patch');
    return {
      plan: (input) => {
        const customFields = customFieldsOf(input, definition);
        return batchPlan(input, envelopeOf(input, 'records'), {
          table,
          location: (number) => `records[${number - 1}]`,
          read: (value) => {
            const body = objectOf(value);
            const id = idOf(body.id);
            const unexpected = input.strict ? rules.unexpected(body, customFields) : [];
            rejectRequest([
              ...(id === undefined
                ? [{ field: 'id', message: `id must be ${fieldTypes.int64.expected}` }]
                : []),
              ...unexpected.filter(({ field }) => field !== 'id'),
              ...rules.validate(body, customFields, 'update'),
            ]);
            return {
              id: id ?? null,
              body: withCustomValues(rules.accepted(body), customFields, 'update'),
            };
          },
          key: ({ id }) => String(id),
        });
      },
      statement: bind,
      result: batchResult,
      splitter: splitterOf<BatchPlan>(bind),
      rejection: explainItems(() => finder),
      assignment: explainItems(() => assignees),
    };
  },
  describe: ({ recordName, pluralName, definition }) => ({
    operationId: `batchPatch${pluralName}`,
    summary: `Change fields of many ${definition.name.replaceAll('_', ' ')}`,
    body: {
      description: `${batchLimitText} Each record contains its \`id\` and the fields to change. Other fields are not changed.`,
      schema: `${recordName}BatchPatch`,
    },
    success: {
      description: 'The result for each record, in request order.',
      schema: 'BatchResults',
    },
  }),
};
