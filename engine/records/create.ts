import type { ResourceDefinition, Unique } from '../definition/index.ts';
import { errors, type FieldIssue, type HttpError } from '../errors.ts';
import type { Field } from '../fields/index.ts';
import { inputs, literal, type Placeholder, type Prepared, prepare } from '../sql/index.ts';
import { allows } from './access.ts';
import {
  type Assignment,
  assignIf,
  assignments,
  assignmentsOf,
  orCreator,
  type WriteValues,
} from './assignments.ts';
import {
  type BatchPlan,
  batchLimits,
  batchLimitText,
  batchPlan,
  batchResult,
  envelopeOf,
  explainItems,
  lockedItemsSql,
  objectOf,
  prepareBatch,
  resultsSql,
  splitterOf,
  successSql,
  updateItems,
} from './batch.ts';
import { customFieldsOf, withCustomValues } from './custom-fields.ts';
import { isInBody, withDefaults } from './default-values.ts';
import { type IdempotentPlan, idempotentStatement, lostRace } from './idempotency.ts';
import {
  comparableSql,
  isBlankValue,
  itemValues,
  matchedSql,
  matchesSeveral,
  namesOf,
  uniqueKeyText,
} from './indexes.ts';
import type { ItemTable } from './items.ts';
import { keepingHidden } from './link-tables.ts';
import type { CreateInput, Operation, OperationContext } from './operation.ts';
import { entityTag } from './preconditions.ts';
import { raisedSql, raisedText } from './raised.ts';
import {
  createAssigneeFinder,
  createRejectionFinder,
  explainRejection,
  type RejectionFinder,
} from './rejections.ts';
import { batchResults, recordResults } from './replay.ts';
import { basePlan, rejectRequest, validBody } from './requests.ts';
import {
  type BatchResult,
  type CreatedResult,
  etagHeader,
  locationHeader,
  replayedHeader,
} from './results.ts';
import { organizationOf, returningSql, visibleSql } from './rows.ts';
import {
  type CompiledSequences,
  compileSequences,
  type NewRows,
  type SequenceValues,
  sequenceFields,
} from './sequence-numbers.ts';
import {
  decodeWritten,
  effectsOf,
  foundRow,
  insertSql,
  prepareInsert,
  selectResult,
  statementName,
} from './statements.ts';
import { violations } from './violations.ts';

/** The plan for a POST request that creates a record. */
export interface CreatePlan extends IdempotentPlan, WriteValues, SequenceValues {
  readonly caller: IdempotentPlan['caller'];
}

/** `POST /R`: creates a record. Absent fields are set to their defaults; the server sets read-only fields. */
export const create: Operation<CreatePlan, CreateInput, CreatedResult> = {
  method: 'POST',
  path: '',
  action: 'create',
  status: 201,
  responseHeaders: { ...locationHeader, ...replayedHeader, ...etagHeader },
  compile: (context) => {
    const { definition, body } = context;
    const { name } = definition;
    const sequences = compileSequences<CreatePlan>(name, sequenceFields(context.stored));
    const simple = prepareInsert<CreatePlan>(context, {
      name: 'create',
      action: 'create',
      before: ($, source) => sequences.expressions($, source === undefined ? undefined : inputRows),
      change: ($, source) => {
        const assigned = assignedOnCreate(context, sequences, $, source !== undefined);
        return `${insertSql(context, assigned, source)} ${returningSql(context, 'create', $, '')}`;
      },
    });
    const idempotent = prepare<CreatePlan>(statementName(context, 'create_once'), 'write', ($) => {
      organizationOf($);
      const assigned = assignedOnCreate(context, sequences, $);
      const effects = effectsOf(context, 'create', $);
      return idempotentStatement($, {
        path: name,
        write: (source) =>
          `${sequences.expressions($, undefined, source)}_written as (${insertSql(context, assigned, source)} ${returningSql(context, 'create', $, '')})${effects}`,
        result: selectResult(context, '_written', $, ['record', 'tag', 'record_id']),
        mark: `-${context.projection.mark}`,
      });
    });
    const { followUp, result } = recordResults<CreatePlan>(context);
    return {
      plan: (input) => ({
        ...basePlan(input),
        body: validBody(body, input, definition, 'create'),
        idempotency: input.idempotency,
        sequenceValues: input.sequenceValues,
      }),
      statement: (plan) => (plan.idempotency === undefined ? simple : idempotent).bind(plan),
      result: (plan, rows) => {
        if (plan.idempotency !== undefined) return { ...result(plan, rows), kind: 'created' };
        const { json, versions, id } = decodeWritten(foundRow(context, rows));
        return { kind: 'created', json, tag: entityTag(context, versions), id, isReplayed: false };
      },
      creates: () => 1,
      ...(followUp && { followUp }),
      retryable: lostRace,
      ...explainRejection<CreatePlan>(context, 'create', ({ body }) => ({ id: null, body }), name),
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `create${recordName}`,
    summary: `Create ${aRecord}`,
    body: { schema: `${recordName}Input` },
    success: { description: 'The created record.', schema: recordName },
  }),
};

/** The inputs of several requests, which can come from several organizations. */
const inputRows: NewRows = { source: inputs, order: `${inputs}."_number"`, isShared: true };

/**
 * Returns the values of a new record's columns.
 * @param hasId whether the source of the rows provides the record's ID as "_id"
 */
const assignedOnCreate = (
  { stored }: OperationContext,
  sequences: CompiledSequences<CreatePlan>,
  placeholder: Placeholder<CreatePlan>,
  hasId = false,
): readonly Assignment[] => [
  ...(hasId ? [{ column: '"id"', value: '"_id"' }] : []),
  ...withDefaults(stored, assignments(stored, 'create', placeholder), placeholder, isInBody(placeholder)),
  ...sequences.assignments(placeholder, hasId ? inputRows : undefined),
];

/** The plan for a POST request that creates or updates many records. */
export interface CreateBatchPlan extends BatchPlan, IdempotentPlan {
  readonly caller: IdempotentPlan['caller'];
  /**
   * Names of the unique fields that identify existing records, separated by spaces; empty if all records are
   * new.
   */
  readonly match: string;
}

/**
 * `POST /R/batch`: creates up to 1,000 records in one statement. With `match`, also updates existing records.
 */
export const createBatch: Operation<CreateBatchPlan, CreateInput, BatchResult, Promise<CreateBatchPlan>> = {
  method: 'POST',
  path: '/batch',
  action: 'create',
  status: 200,
  isBatch: true,
  responseHeaders: replayedHeader,
  body: batchLimits,
  compile: (context) => {
    const { definition, body: rules, items: table } = context;
    const variants = new Map(
      [undefined, ...definition.uniques].map((match) => [variantName(match), compileVariant(context, match)]),
    );
    const variantOf = ({ match }: Pick<CreateBatchPlan, 'match'>): Variant => {
      const variant = variants.get(match);
      if (variant === undefined) throw invalidMatch(definition);
      return variant;
    };
    const { followUp, result } = batchResults<CreateBatchPlan>(context);
    const explainViolation = violations(context);
    return {
      plan: async (input) => {
        const { caller, strict } = input;
        const envelope = envelopeOf(input, 'records', { hasMatch: true });
        const partialPlan = { match: variantName(envelope.match?.map((name) => ({ name }))) };
        const { match } = variantOf(partialPlan);
        const { grants, phoneRegion } = caller.principal;
        if (match !== undefined && !allows(grants, context.stored, 'update')) {
          throw errors.forbidden(definition.name, 'update');
        }
        const { idempotency } = input;
        const customFields = customFieldsOf(input, definition);
        const batch = await batchPlan(input, envelope, {
          table,
          location: (number) => `records[${number - 1}]`,
          read: (value) => {
            const body = objectOf(value);
            rejectRequest([
              ...(strict ? rules.unexpected(body, customFields) : []),
              ...rules.validate(body, customFields),
              ...(match ?? []).filter((field) => isBlankValue(body, field)).map(missingKeyIssue),
            ]);
            return {
              id: null,
              body: withCustomValues(rules.accepted(body), customFields, 'create'),
              ...(match && { phoneRegion }),
            };
          },
          ...(match && {
            key: ({ body }) => uniqueKeyText(match, body, phoneRegion),
            sameKey: errors.duplicateInBatch(namesOf(match)),
          }),
        });
        return { ...batch, ...partialPlan, caller, idempotency };
      },
      statement: (plan) => {
        const { simple, idempotent } = variantOf(plan);
        return (plan.idempotency === undefined ? simple : idempotent).bind(plan);
      },
      // With `match`, the number of new records is not known in advance.
      creates: ({ match, size, failures }) => (match === '' ? size - failures.size : 1),
      result: (plan, rows) => {
        if (plan.idempotency === undefined) return batchResult(plan, rows);
        const { json, isReplayed } = result(plan, rows);
        return { kind: 'batch', json, isReplayed };
      },
      ...(followUp && { followUp }),
      violation: (cause) => ambiguousMatch(cause) ?? explainViolation(cause),
      retryable: lostRace,
      splitter: splitterOf<CreateBatchPlan>((plan) => variantOf(plan).simple.bind(plan)),
      rejection: explainItems((plan) => variantOf(plan).rejections),
      assignment: explainItems((plan) => variantOf(plan).assignees),
    };
  },
  describe: ({ recordName, pluralName, definition }) => ({
    operationId: `batchCreate${pluralName}`,
    summary: `Create or update many ${definition.name.replaceAll('_', ' ')}`,
    body: {
      description: `${batchLimitText} With \`match\`, existing records with the same values in these fields are updated as with PATCH, which also requires the \`update\` grant.`,
      schema: `${recordName}Batch`,
    },
    success: {
      description: 'The result for each record, in request order.',
      schema: 'BatchResults',
    },
  }),
};

/**
 * Statements for one value of `match`. Without `match`, they insert every record; with it, they also update
 * existing records that have the same unique values.
 */
interface Variant {
  readonly match: Unique | undefined;
  readonly simple: Prepared<CreateBatchPlan>;
  /** Statement for requests with an `Idempotency-Key`. */
  readonly idempotent: Prepared<CreateBatchPlan>;
  readonly rejections: RejectionFinder;
  /** Finds assigned users who are not members. */
  readonly assignees: RejectionFinder;
}

/** Returns a variant's key, which does not depend on the order of the fields. */
const variantName = (match: readonly { readonly name: string }[] = []): string =>
  match
    .map(({ name }) => name)
    .sort()
    .join(' ');

const invalidMatch = ({ uniques }: ResourceDefinition): HttpError =>
  errors.invalidParameter(
    'match',
    uniques.length === 0
      ? 'cannot be used, because no field is unique'
      : `must be one of ${uniques.map((unique) => JSON.stringify(namesOf(unique))).join(', ')}`,
  );

const missingKeyIssue = ({ name }: Field): FieldIssue => ({
  field: name,
  message: `${name} must not be empty because records are matched by it`,
});

function compileVariant(context: OperationContext, match: Unique | undefined): Variant {
  const { items: table } = context;
  const path = `${context.definition.name}/batch`;
  const writes = match === undefined ? 'create' : { match };
  return {
    match,
    simple: prepareBatch(($) => {
      organizationOf($);
      return `with ${writeSql(context, match, $)} select ${resultsOf(context, match, $)}`;
    }),
    idempotent: prepareBatch(($) => {
      organizationOf($);
      return idempotentStatement($, {
        path,
        write: (source) => writeSql(context, match, $, source),
        result: `select ${resultsOf(context, match, $)} as "record", '' as "tag", '0' as "record_id" from _first`,
        mark: '',
      });
    }),
    rejections: createRejectionFinder(context, table, writes),
    assignees: createAssigneeFinder(context, table, writes, path),
  };
}

/**
 * Returns the common table expressions that update matching records and then create the remaining ones.
 * @param guard see {@link ItemTable}
 */
function writeSql(
  context: OperationContext,
  match: Unique | undefined,
  $: Placeholder<CreateBatchPlan>,
  guard?: string,
): string {
  const { items: table, stored } = context;
  const written = assignmentsOf(stored, 'create', $, (field) =>
    orCreator(field, $, table.hasField(field), table.assignments(field)),
  );
  const sequences = compileSequences(stored.name, sequenceFields(stored));
  const assigned = [
    ...withDefaults(stored, written, $, table.hasField),
    ...sequences.assignments($, newItems),
  ];
  // Records are inserted in request order, so that their IDs ascend in that order. If concurrent requests can
  // write the same keys, records are inserted in key order to prevent deadlocks.
  const order =
    match === undefined
      ? []
      : match.map((field) => comparableSql(field, itemValues(table, [field])[0] ?? ''));
  const isNew = match === undefined ? '' : ' where not exists (select from _found _f where _f._n = _i._n)';
  return [
    table.expression($, guard),
    ...(match === undefined ? [] : [updateMatchingSql(context, match, $)]),
    `_new as materialized (select _i.*, row_number() over (order by ${[...order, '_i._n'].join(', ')}) as _rank from _items _i${isNew})`,
    // IDs ascend in the order of the rows.
    `${sequences.expressions($, newItems)}_written as (${insertSql(context, assigned, '_new _i order by _i._rank')} ${returningSql(context, 'create', $, '')})${effectsOf(context, 'create', $)}`,
    '_ids as (select "id", row_number() over (order by "id") as _rank from _written)',
  ].join(', ');
}

/** The items of a batch for which records are created. */
const newItems: NewRows = { source: '_new', order: '_i._n' };

/** Returns the common table expressions that update matching records. */
function updateMatchingSql(
  context: OperationContext,
  match: Unique,
  $: Placeholder<CreateBatchPlan>,
): string {
  const { definition, items: table } = context;
  const assignments = assignmentsOf(definition, 'update', $, (field) =>
    assignIf(table.hasField(field), keepingHidden(field, context.resources, $, table.assignments(field))),
  );
  const condition = `${visibleSql(context, 'update', $)} and ${matchedSql(table, match)}`;
  return `${lockedItemsSql(context, condition)}, ${updateItems(context, assignments, $, '_changed')}`;
}

/** Returns an SQL expression for the ID of an item's record, which fails if the item identifies several records. */
function foundId(table: ItemTable, match: Unique): string {
  if (!matchesSeveral(table, match)) return '_f."id"';
  const prefix = literal(`${ambiguous}${namesOf(match).join(' ')} `);
  const failure = raisedSql(`${prefix} || _f."id"`);
  return `case when count(*) over (partition by _f._n) = 1 then _f."id" else ${failure} end`;
}

/** Text that a failed statement contains if an item identifies several records, followed by the names of the fields. */
const ambiguous = 'ambiguous match ';

/** Returns the error for an item that identifies several records. */
function ambiguousMatch(cause: unknown): HttpError | undefined {
  const [names] = raisedText(cause, `${ambiguous}([^"]+) \\d+`);
  return names === undefined ? undefined : errors.ambiguousMatch(names.split(' '));
}

const resultsOf = (
  { items: table }: Pick<OperationContext, 'items'>,
  match: Unique | undefined,
  $: Placeholder<CreateBatchPlan>,
): string =>
  resultsSql($, [
    `select _i._n, ${successSql(201, '_w."id"')} from _new _i join _ids _w on _w._rank = _i._rank`,
    ...(match === undefined
      ? []
      : [`select _f._n, ${successSql(200, foundId(table, match))} from _found _f`]),
  ]);
