import type { TextRows } from '../database/index.ts';
import { errors } from '../errors.ts';
import {
  ExactNumber,
  type Field,
  fieldColumns,
  fieldTypes,
  integerText,
  linksOf,
  maxReferences,
  refersToMany,
} from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import {
  cell,
  column,
  literal,
  type Placeholder,
  type Prepared,
  prepare,
  quote,
  record,
  rowDecoder,
} from '../sql/index.ts';
import { allows } from './access.ts';
import { type Assignment, assignmentsOf } from './assignments.ts';
import { prepareBatch } from './batch.ts';
import { customFieldsOf } from './custom-fields.ts';
import { removalSql } from './delete-referrers.ts';
import { type Referrer, removalOf } from './delete-rules.ts';
import type { TransactionExecutor } from './executor.ts';
import { namesOf, showsValues, violatedUnique } from './indexes.ts';
import { referredId, referrerSource } from './link-tables.ts';
import type { Operation, OperationContext, UpdateInput } from './operation.ts';
import { preconditionsOf, preconditionsSql } from './preconditions.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { etagHeader, type RecordResult } from './results.ts';
import { organizationOf, outsideScope, ownRowsSql, returningSql, visibleSql } from './rows.ts';
import {
  byIdSql,
  decodeWritten,
  effectsOf,
  foundRow,
  recordResult,
  selectResult,
  statementName,
  tableOf,
  updateOf,
  type WriteById,
} from './statements.ts';
import { unknownProperty } from './unknown-names.ts';
import { type ExplainViolation, violations } from './violations.ts';

/** A plan that merges two records. */
export interface MergePlan extends WriteById {
  readonly caller: WriteById['caller'];
  /** ID of the record that is merged into the plan's record, as a decimal string. */
  readonly from: string;
  /** Keys of the custom fields that the caller can write. */
  readonly customKeys: readonly string[];
}

const id = ({ id }: MergePlan) => id;
const from = ({ from }: MergePlan) => from;
const customKeys = ({ customKeys }: MergePlan) => customKeys;

/** Maximum number of references that a merge can move. */
const maxMoved = 10_000;

// Aliases of the record that is merged into another, and of a record that refers to it.
const [merged, row] = ['_m', 'r'];

/**
 * `POST /R/{id}/merge`: moves all references from another record to this one, fills this record's blank fields with the
 * other record's values, and deletes the other record or moves it to the trash.
 */
export const merge: Operation<MergePlan, UpdateInput, RecordResult> = {
  method: 'POST',
  path: '/:id/merge',
  action: 'update',
  status: 200,
  responseHeaders: etagHeader,
  sampleBody: { from: 2 },
  compile: (context) => {
    const { definition, stored } = context;
    const final = prepare<MergePlan>(statementName(context, 'merge'), 'write', ($) => mergeSql(context, $));
    const steps = compileMergeSteps(context);
    const explain = explainMerge(context);
    return {
      plan: (input) => {
        const { caller, strict } = input;
        if (!allows(caller.principal.grants, stored, 'delete')) throw errors.forbidden(stored.name, 'delete');
        const { from: source, ...rest } = input.body;
        const sourceId = integerText(source);
        const isOwnId = sourceId !== undefined && sourceId === input.id;
        rejectRequest([
          ...unknownParameters(input, commonParameters),
          ...(strict ? Object.keys(rest) : []).map(unknownProperty(['from'])),
          ...(sourceId === undefined
            ? [parameterIssue('from', `must be ${fieldTypes.int64.expected}`)]
            : isOwnId
              ? [parameterIssue('from', 'must be another record')]
              : []),
        ]);
        return {
          ...basePlan(input),
          from: sourceId ?? '',
          customKeys: customFieldsOf(input, definition).flatMap(({ custom, readOnly }) =>
            custom === undefined || readOnly ? [] : [custom.key],
          ),
          conditions: preconditionsOf(context, input),
          id: recordId(context, input),
        };
      },
      statement: final.bind,
      transaction: (plan) => ({
        lane: 'batch',
        run: async ({ run }) => {
          await steps.run(run, plan);
          return run(final.bind(plan)).catch((cause: unknown) => {
            throw explain(cause) ?? cause;
          });
        },
      }),
      result: (_, rows) => recordResult(context, decodeWritten(foundRow(context, rows))),
    };
  },
  describe: ({ definition, aRecord, recordName }) => ({
    operationId: `merge${recordName}`,
    summary: `Merge another record into ${aRecord}`,
    body: { description: 'The ID of the other record.', schema: 'MergeSource' },
    success: {
      description: `The merged ${definition.singular.replaceAll('_', ' ')}. References to the other record were moved to it, and blank fields filled from the other record, which ${
        definition.trash === undefined ? 'was deleted' : 'was moved to the trash'
      }.`,
      schema: recordName,
    },
  }),
};

/** The steps of a merge before its final statement. */
interface MergeSteps {
  readonly statements: readonly Prepared<MergePlan>[];
  readonly run: (run: TransactionExecutor['run'], plan: MergePlan) => Promise<void>;
}

/** Compiles the steps before the final statement: they lock both records and move references and effects' rows. */
export function compileMergeSteps(context: OperationContext): MergeSteps {
  const { definition, effects, referrers } = context;
  const references = referrers.get(definition.name) ?? [];
  const lock = prepareBatch<MergePlan>(($) => {
    organizationOf($);
    const columns = [
      `${record}."id"`,
      `${visibleSql(context, 'update', $)}`,
      `${visibleSql(context, 'delete', $)}`,
      `coalesce(${preconditionsSql(context, $)}, true)`,
    ];
    return `select ${columns.map((value, index) => `(${value})::text as _c${index}`).join(', ')} from ${tableOf(context)} ${record} where ${bothSql($)} order by ${record}."id" for update of ${record}`;
  });
  const check = prepareBatch<MergePlan>(($) => {
    organizationOf($);
    const counts = references.map((reference) => {
      const rows = referringSql(reference, $);
      return `(select count(*) from (select ${rows} limit ${maxMoved + 1}) _c)`;
    });
    const lists = combinedLists(context).map(
      (field) =>
        `(select (count(distinct _e) > ${maxReferences})::text from ${tableOf(context)} ${record} cross join lateral unnest(${column(field)}) _e where ${bothSql($)})`,
    );
    return `select ${[`(${['0', ...counts].join(' + ')})::text as _n`, ...lists.map((sql, index) => `${sql} as _l${index}`)].join(', ')} where ${organizationOf($)} is not null and ${$(id)}::bigint is not null and ${$(from)}::bigint is not null`;
  });
  const moves = [...Map.groupBy(references, ({ resource }) => resource)].map(([resource, fields]) => ({
    statement: prepareBatch<MergePlan>(($) => moveSql(context, resource, fields, $)),
    explain: explainMove(context, resource),
  }));
  const stored = effects.flatMap(({ ofMerge }) =>
    ofMerge === undefined
      ? []
      : [
          prepareBatch<MergePlan>(($) =>
            ofMerge({
              resource: definition.name,
              organization: organizationOf($),
              id: `${$(id)}::bigint`,
              from: `${$(from)}::bigint`,
            }),
          ),
        ],
  );
  return {
    statements: [lock, check, ...moves.map(({ statement }) => statement), ...stored],
    run: async (run, plan) => {
      rejectRecords(context, plan, await run(lock.bind(plan)));
      rejectSize(context, await run(check.bind(plan)));
      for (const { statement, explain } of moves)
        await run(statement.bind(plan)).catch((cause: unknown) => {
          throw explain(cause) ?? cause;
        });
      for (const { bind } of stored) await run(bind(plan));
    },
  };
}

/** Returns the condition that a row is one of the two records. */
const bothSql = ($: Placeholder<MergePlan>): string =>
  `${ownRowsSql($)} and ${record}."id" in (${$(id)}::bigint, ${$(from)}::bigint)`;

const decodeLocked = rowDecoder({
  id: cell.text,
  isUpdatable: cell.flag,
  isDeletable: cell.flag,
  isMet: cell.flag,
});

/**
 * Checks the two locked records.
 * @throws HttpError 404 if the caller cannot update the record, 400 if it cannot delete the other one, 412 if the record has
 * another version
 */
function rejectRecords({ definition }: OperationContext, plan: MergePlan, rows: TextRows): void {
  const locked = rows.map((cells) => decodeLocked(cells));
  const target = locked.find((candidate) => candidate.id === plan.id);
  const source = locked.find((candidate) => candidate.id === plan.from);
  if (target?.isUpdatable !== true) throw errors.recordNotFound(definition.singular);
  if (source?.isDeletable !== true)
    throw errors.missingReferences([
      { field: 'from', message: `from ${plan.from} does not exist in ${definition.name}` },
    ]);
  if (plan.conditions !== undefined && !target.isMet) throw errors.preconditionFailed();
}

const decodeCount = rowDecoder({ count: cell.count });

/** @throws HttpError 409 if a merge would move too many references, or 400 if a list would contain too many */
function rejectSize(context: OperationContext, [cells = []]: TextRows): void {
  if (decodeCount(cells).count > maxMoved) throw errors.mergeTooLarge(maxMoved);
  const issues = combinedLists(context)
    .filter((_, index) => cell.flag(cells[1 + index] ?? null))
    .map(({ name }) => parameterIssue(name, `would refer to more than ${maxReferences} records`));
  rejectRequest(issues);
}

/** Returns the lists of references that a merge combines. */
const combinedLists = ({ definition }: OperationContext): readonly Field[] =>
  definition.fields.filter((field) => refersToMany(field) && !field.readOnly);

/** Returns a SELECT list and FROM clause for the IDs of the records whose reference a merge moves. */
function referringSql(reference: Referrer, $: Placeholder<MergePlan>): string {
  const organization = organizationOf($);
  return `${row}."id" from ${referrerSource(reference, row, organization)} where ${ownRowsSql($, row)} and ${referredId(reference, row)} = ${$(from)}::bigint`;
}

/** Returns the statement that moves references in the records of a resource, including those in the trash. */
function moveSql(
  context: OperationContext,
  resource: string,
  references: readonly Referrer[],
  $: Placeholder<MergePlan>,
): string {
  const { definition, effects, resources } = context;
  const visible = resources.get(resource);
  if (visible === undefined) throw new Error(`Unknown resource ${resource}`);
  organizationOf($);
  const [target, source] = [`${$(id)}::bigint`, `${$(from)}::bigint`];
  const assignments = references.map(({ column: name, isList }) => {
    const stored = `${row}.${quote(name)}`;
    const moved = (value: string) => `case when ${value} = ${source} then ${target} else ${value} end`;
    return `${quote(name)} = ${isList ? `array(select distinct ${moved('_e')} from unnest(${stored}) _e order by 1)` : moved(stored)}`;
  });
  const times = visible.stored.fields
    .filter(({ set }) => set === 'updated')
    .map(({ name }) => `${quote(name)} = now()`);
  // The final statement writes the two records.
  const others = resource === definition.name ? ` and ${row}."id" not in (${target}, ${source})` : '';
  const rows = references.map((reference) => `select ${referringSql(reference, $)}`).join(' union ');
  const update = `update ${quote(resource)} ${row} set ${[...assignments, ...times].join(', ')} where ${ownRowsSql($, row)} and ${row}."id" in (${rows})${others} returning ${row}.*`;
  const written = { definition: { name: resource }, effects, projection: visible.projection };
  return `with _moved as (${update})${effectsOf(written, 'update', $, { name: '_moved', isMany: true })} select count(*)::text from _moved`;
}

/** Returns a function that explains why the references in a resource's records cannot be moved. */
function explainMove(context: OperationContext, resource: string): ExplainViolation {
  const visible = context.resources.get(resource);
  if (visible === undefined) throw new Error(`Unknown resource ${resource}`);
  const { definition, stored } = visible;
  const explainRule = violations({ stored, resources: context.resources });
  return (cause) => {
    const unique = violatedUnique(stored, cause);
    if (unique === undefined) return explainRule(cause);
    return errors.mergeConflict(resource, showsValues(definition, unique) ? namesOf(unique) : []);
  };
}

/** Returns a function that explains why the final statement was rejected. */
function explainMerge(context: OperationContext): ExplainViolation {
  const explainRule = violations(context);
  return (cause) => {
    const unique = violatedUnique(context.stored, cause);
    // Without the other record's ID, because the failed transaction cannot run another statement.
    return unique === undefined
      ? (outsideScope(cause) ?? explainRule(cause))
      : errors.duplicate(namesOf(unique));
  };
}

/** Returns the final statement: it removes the other record, and fills the blank fields of the plan's record from it. */
function mergeSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  const removal = removalOf(context.definition);
  const condition = `${visibleSql(context, 'delete', $)} and ${record}."id" = ${$(from)}::bigint`;
  const removed = `${removalSql({ removal }, tableOf(context), undefined, condition)} returning ${record}.*`;
  const assignments = assignmentsOf(context.definition, 'update', $, (field) => combined(context, field, $));
  // References from the record to the other one that the caller cannot write.
  const cleared = (context.referrers.get(context.definition.name) ?? [])
    .filter(({ resource }) => resource === context.definition.name)
    .filter(({ column: name }) => assignments.every((assignment) => assignment.column !== quote(name)))
    .map(({ column: name, isList }) => ({
      column: quote(name),
      value: withoutSql(column({ name }), isList, [`${merged}."id"`]),
    }));
  // Joins the removed row, so that its unique values are free before the other record gets them.
  const update = updateOf(
    context,
    [...assignments, ...cleared],
    byIdSql(context, 'update', $),
    ` from _removed ${merged}`,
  );
  return `with _removed as (${removed})${effectsOf(context, removal, $, { name: '_removed' })}, _written as (${update} ${returningSql(context, 'update', $)})${effectsOf(context, 'update', $, { name: '_written' })} ${selectResult(context, '_written', $)}`;
}

/** Returns an SQL expression for a reference or list of references without references to some records. */
const withoutSql = (value: string, isList: boolean, ids: readonly string[]): string =>
  ids.reduce((sql, removed) => `${isList ? 'array_remove' : 'nullif'}(${sql}, ${removed})`, value);

/** Returns the assignments to a field's columns: the record's own value or, if it is blank, the other record's value. */
function combined(
  { definition }: OperationContext,
  field: Field,
  $: Placeholder<MergePlan>,
): readonly Assignment[] {
  const isList = refersToMany(field);
  const ownLinks = linksOf(field)
    .filter(({ to }) => to === definition.name)
    .map(({ name }) => name);
  const columns = fieldColumns(field).map(({ name, type }) => {
    const isOwnLink = ownLinks.includes(name);
    const [own, other] = [column({ name }), column({ name }, merged)];
    const ids = [`${record}."id"`, `${merged}."id"`];
    return {
      name,
      type,
      // A record does not refer to itself because of the merge.
      own: isOwnLink ? withoutSql(own, isList, ids.slice(1)) : own,
      other: isOwnLink ? withoutSql(other, isList, ids) : other,
    };
  });
  const [first] = columns;
  if (first === undefined) return [];
  const { combine, custom } = field.type;
  if (combine !== undefined) {
    const other =
      custom === true
        ? `(select coalesce(jsonb_object_agg(_k, _v), '{}') from jsonb_each(${first.other}) _o(_k, _v) where _k = any(${$(customKeys)}::text[]))`
        : first.other;
    return [{ column: quote(first.name), value: combine(first.own, other) }];
  }
  const empty = emptyText(field);
  const isBlank =
    empty === undefined
      ? columns.map(({ own }) => `${own} is null`).join(' and ')
      : `coalesce(${first.own} = ${literal(empty)}::${first.type}, true)`;
  return columns.map(({ name, own, other }) => ({
    column: quote(name),
    value: `case when ${isBlank} then ${other} else ${own} end`,
  }));
}

/** Returns whether a value in a response is blank: null, an empty text or an empty list or object. See {@link emptyText}. */
export const isBlank = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  value === '' ||
  (typeof value === 'object' && !(value instanceof ExactNumber) && Object.keys(value).length === 0);

/** Returns the empty text or list of a field's type, as a parameter. Zero and false are values like any other. */
const emptyText = ({ type: { empty, write } }: Field): string | undefined =>
  empty === '' || typeof empty === 'object' ? (write?.(empty)[0] ?? undefined) : undefined;
