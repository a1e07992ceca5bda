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
import { type Action, allows } from './access.ts';
import { type Assignment, assignmentsOf } from './assignments.ts';
import { prepareBatch } from './batch.ts';
import { customFieldsOf } from './custom-fields.ts';
import { removalSql } from './delete-referrers.ts';
import { type Referrer, removalOf } from './delete-rules.ts';
import type { TransactionExecutor } from './executor.ts';
import { namesOf, showsValues, violatedUnique } from './indexes.ts';
import { referredId, referrerSource } from './link-tables.ts';
import {
  isKeptMerge,
  keepMovedSql,
  keptMerge,
  type MergedPair,
  mergesTable,
  pairSql,
} from './merge-tables.ts';
import type { Operation, OperationContext, ProjectedResource, UpdateInput } from './operation.ts';
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

/** A plan that merges two records, or undoes the merge. */
export interface MergePlan extends WriteById, MergedPair {
  /** Keys of the custom fields that the caller can write. */
  readonly customKeys: readonly string[];
}

const customKeys = ({ customKeys }: MergePlan) => customKeys;

/** Maximum number of references that a merge can move. */
export const maxMoved = 10_000;

/** Alias of the record that is merged into another. */
const merged = '_m';
/** Alias of a record that refers to one of the two records. */
export const row = 'r';

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
    const final = prepare<MergePlan>(statementName(context, 'merge'), 'write', ($) => mergeSql(context, $));
    const steps = compileMergeSteps(context);
    const write = { statement: final, explain: explainPair(context) };
    return {
      plan: (input) => mergePlan(context, 'delete', input),
      statement: final.bind,
      transaction: (plan) => ({
        lane: 'batch',
        run: async ({ run }) => {
          await steps.run(run, plan);
          const rows = await runExplained(run, write, plan);
          await run(steps.changed.bind(plan));
          return rows;
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

/**
 * Validates the input of a merge, or of an operation that undoes one.
 * @param grant the required grant for the other record
 * @throws HttpError 400 or 404 if the input is invalid, or 403
 */
export function mergePlan(context: OperationContext, grant: Action, input: UpdateInput): MergePlan {
  const { definition, stored } = context;
  const { caller, strict } = input;
  if (!allows(caller.principal.grants, stored, grant)) throw errors.forbidden(stored.name, grant);
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
}

/** The steps of a merge other than its final statement. */
interface MergeSteps {
  /** The statement after the final one: it stores the columns that the merge has changed. */
  readonly changed: Prepared<MergePlan>;
  readonly statements: readonly Prepared<MergePlan>[];
  readonly run: (run: TransactionExecutor['run'], plan: MergePlan) => Promise<void>;
}

/**
 * Compiles the steps of a merge. Before the final statement, they lock both records, and move references and effects' rows. They
 * also store what is needed to undo the merge.
 */
export function compileMergeSteps(context: OperationContext): MergeSteps {
  const { definition, referrers } = context;
  const references = referrers.get(definition.name) ?? [];
  const lock = prepareBatch<MergePlan>(($) => lockPairSql(context, visibleSql(context, 'delete', $), $));
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
    const { target, source } = pairSql($);
    return `select ${[`(${['0', ...counts].join(' + ')})::text as _n`, ...lists.map((sql, index) => `${sql} as _l${index}`)].join(', ')} where ${organizationOf($)} is not null and ${target} is not null and ${source} is not null`;
  });
  const kept = prepareBatch<MergePlan>(($) => keepSql(context, $));
  const changed = prepareBatch<MergePlan>(($) => keepChangedSql(context, $));
  const moves = referringResources(context).map(({ visible, references: fields }) => ({
    statement: prepareBatch<MergePlan>(($) => moveSql(context, visible, fields, $)),
    explain: explainMove(context, visible),
  }));
  const stored = movedEffects(context).map(({ table, move }) =>
    prepareBatch<MergePlan>(($) => {
      const { name } = definition;
      const organization = organizationOf($);
      const { target, source } = pairSql($);
      const moved = keepMovedSql(name, table, { '': 'select "id", false from _moved' }, $);
      return `with _moved as (${move({ resource: name, organization, id: target, from: source })}) ${moved}`;
    }),
  );
  return {
    changed,
    statements: [lock, check, kept, ...moves.map(({ statement }) => statement), ...stored, changed],
    run: async (run, plan) => {
      rejectRecords(context, plan, await run(lock.bind(plan)));
      rejectSize(context, await run(check.bind(plan)));
      await run(kept.bind(plan));
      for (const move of moves) await runExplained(run, move, plan);
      for (const { bind } of stored) await run(bind(plan));
    },
  };
}

/** A write of a merge, or of undoing one. */
interface ExplainedWrite {
  readonly statement: Prepared<MergePlan>;
  /** Explains why the database rejected the write. */
  readonly explain: ExplainViolation;
}

/** Runs a write. @throws HttpError if its rejection can be explained */
export const runExplained = (
  run: TransactionExecutor['run'],
  { statement, explain }: ExplainedWrite,
  plan: MergePlan,
): Promise<TextRows> =>
  run(statement.bind(plan)).catch((cause: unknown) => {
    throw explain(cause) ?? cause;
  });

/** Returns the references to a resource's records, by the resource that contains them. */
export const referringResources = ({
  definition,
  referrers,
  resources,
}: OperationContext): readonly {
  readonly visible: ProjectedResource;
  readonly references: readonly Referrer[];
}[] =>
  [...Map.groupBy(referrers.get(definition.name) ?? [], ({ resource }) => resource)].map(
    ([name, references]) => {
      const visible = resources.get(name);
      if (visible === undefined) throw new Error(`Unknown resource ${name}`);
      return { visible, references };
    },
  );

/** Returns how merges move what effects have stored for a record. */
export const movedEffects = ({ effects }: OperationContext) =>
  effects.flatMap(({ ofMerge }) => ofMerge ?? []);

/**
 * Returns the statement that locks both records.
 * @param isWritable SQL condition that the caller can write the other record
 */
export function lockPairSql(
  context: OperationContext,
  isWritable: string,
  $: Placeholder<MergePlan>,
): string {
  const columns = [
    `${record}."id"`,
    visibleSql(context, 'update', $),
    isWritable,
    `coalesce(${preconditionsSql(context, $)}, true)`,
  ];
  return `select ${columns.map((value, index) => `(${value})::text as _c${index}`).join(', ')} from ${tableOf(context)} ${record} where ${bothSql($)} order by ${record}."id" for update of ${record}`;
}

/** Returns the condition that a row is one of the two records. */
function bothSql($: Placeholder<MergePlan>): string {
  const { target, source } = pairSql($);
  return `${ownRowsSql($)} and ${record}."id" in (${target}, ${source})`;
}

/** Returns the statement that stores both records before the merge. */
function keepSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  const { definition, stored } = context;
  organizationOf($);
  const { target, source } = pairSql($);
  const rowOf = (id: string) =>
    `(select to_jsonb(${record})::text from ${tableOf(context)} ${record} where ${ownRowsSql($)} and ${record}."id" = ${id})`;
  const values = {
    organization_id: organizationOf($),
    resource: literal(definition.name),
    record_id: target,
    from_id: source,
    removed: stored.trash === undefined ? rowOf(source) : "''",
    before: rowOf(target),
  };
  const names = Object.keys(values).map(quote).join(', ');
  // A merge of the same records whose other record was restored without undoing the merge is replaced.
  return `insert into ${quote(mergesTable)} (${names}) values (${Object.values(values).join(', ')}) on conflict ("organization_id", "resource", "record_id", "from_id") do update set "removed" = excluded."removed", "before" = excluded."before", "after" = '', "moved" = '{}', "merged_at" = now()`;
}

/** Returns the statement that stores the columns that the merge has changed, instead of the whole record. */
function keepChangedSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  organizationOf($);
  const { target } = pairSql($);
  const columns = mergedColumns(context);
  const changed = `_b.value is distinct from _a.value and _b.key = any(${$(() => columns)}::text[])`;
  const pairs = `jsonb_each(${keptMerge}."before"::jsonb) _b join jsonb_each(to_jsonb(${record})) _a on _a.key = _b.key where ${changed}`;
  const listOf = (alias: string) =>
    `(select coalesce(jsonb_object_agg(${alias}.key, ${alias}.value), '{}')::text from ${pairs})`;
  return `update ${quote(mergesTable)} ${keptMerge} set "before" = ${listOf('_b')}, "after" = ${listOf('_a')} from ${tableOf(context)} ${record} where ${isKeptMerge(context.definition.name, $)} and ${ownRowsSql($)} and ${record}."id" = ${target}`;
}

/** Returns the names of the columns of the remaining record that a merge can change, without those that the server sets itself. */
export const mergedColumns = ({ definition, referrers }: OperationContext): readonly string[] => [
  ...new Set([
    ...definition.fields
      .filter(({ readOnly }) => !readOnly)
      .flatMap(fieldColumns)
      .map(({ name }) => name),
    ...ownReferences({ definition, referrers }).map(({ column: name }) => name),
  ]),
];

/** Returns the references within a resource. */
export const ownReferences = ({
  definition,
  referrers,
}: Pick<OperationContext, 'definition' | 'referrers'>): readonly Referrer[] =>
  (referrers.get(definition.name) ?? []).filter(({ resource }) => resource === definition.name);

const decodeLocked = rowDecoder({
  id: cell.text,
  isUpdatable: cell.flag,
  isWritable: cell.flag,
  isMet: cell.flag,
});

/** Decodes the rows of {@link lockPairSql}: the record that remains and the other one, if they exist. */
export function lockedPair({ id, from }: MergePlan, rows: TextRows) {
  const locked = rows.map((cells) => decodeLocked(cells));
  return {
    target: locked.find((candidate) => candidate.id === id),
    source: locked.find((candidate) => candidate.id === from),
  };
}

/**
 * Checks the two locked records.
 * @throws HttpError 404 if the caller cannot update the record, 400 if it cannot delete the other one, 412 if the record has
 * another version
 */
function rejectRecords({ definition }: OperationContext, plan: MergePlan, rows: TextRows): void {
  const { target, source } = lockedPair(plan, rows);
  if (target?.isUpdatable !== true) throw errors.recordNotFound(definition.singular);
  if (source?.isWritable !== true)
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
  return `${row}."id" from ${referrerSource(reference, row, organization)} where ${ownRowsSql($, row)} and ${referredId(reference, row)} = ${pairSql($).source}`;
}

/** Returns the statement that moves references in the records of a resource, including those in the trash. */
function moveSql(
  context: OperationContext,
  visible: ProjectedResource,
  references: readonly Referrer[],
  $: Placeholder<MergePlan>,
): string {
  const { definition } = context;
  const resource = visible.stored.name;
  organizationOf($);
  const { target, source } = pairSql($);
  const assignments = references.map(({ column: name, isList }) => {
    const stored = `${row}.${quote(name)}`;
    const moved = (value: string) => `case when ${value} = ${source} then ${target} else ${value} end`;
    return `${quote(name)} = ${isList ? `array(select distinct ${moved('_e')} from unnest(${stored}) _e order by 1)` : moved(stored)}`;
  });
  // The final statement writes the two records.
  const others = resource === definition.name ? ` and ${row}."id" not in (${target}, ${source})` : '';
  const rows = references.map((reference) => `select ${referringSql(reference, $)}`).join(' union ');
  const flags = references.flatMap(({ column: name, isList }, index) => {
    const stored = `${row}.${quote(name)}`;
    return isList
      ? [`${source} = any(${stored}) as _m${index}`, `${target} = any(${stored}) as _b${index}`]
      : [`coalesce(${stored} = ${source}, false) as _m${index}`, `false as _b${index}`];
  });
  const found = `select ${row}."id", ${flags.join(', ')} from ${quote(resource)} ${row} where ${ownRowsSql($, row)} and ${row}."id" in (${rows})${others} for update of ${row}`;
  const moved = Object.fromEntries(
    references.map(({ column: name }, index) => [
      name,
      `select _f."id", _f._b${index} from _found _f where _f._m${index}`,
    ]),
  );
  const kept = keepMovedSql(definition.name, resource, moved, $);
  return `with _found as (${found}), ${movedSql(context, visible, assignments, `${row}."id" in (select _f."id" from _found _f)`, $)}, _kept as (${kept}) select count(*)::text from _moved`;
}

/**
 * Returns the expression `_moved`, which changes references in the records of a resource, and the effects of this write.
 * @param condition the condition for the records, with the alias `r`
 */
export function movedSql(
  { effects }: Pick<OperationContext, 'effects'>,
  { stored, projection }: ProjectedResource,
  assignments: readonly string[],
  condition: string,
  $: Placeholder<MergePlan>,
  from = '',
): string {
  const times = stored.fields
    .filter(({ set }) => set === 'updated')
    .map(({ name }) => `${quote(name)} = now()`);
  const update = `update ${quote(stored.name)} ${row} set ${[...assignments, ...times].join(', ')}${from} where ${ownRowsSql($, row)} and ${condition} returning ${row}.*`;
  const written = { definition: { name: stored.name }, effects, projection };
  return `_moved as (${update})${effectsOf(written, 'update', $, { name: '_moved', isMany: true })}`;
}

/** Returns a function that explains why the references in a resource's records cannot be moved. */
export function explainMove(
  { resources }: OperationContext,
  { definition, stored }: ProjectedResource,
): ExplainViolation {
  const explainRule = violations({ stored, resources });
  return (cause) => {
    const unique = violatedUnique(stored, cause);
    if (unique === undefined) return explainRule(cause);
    return errors.mergeConflict(stored.name, showsValues(definition, unique) ? namesOf(unique) : []);
  };
}

/** Returns a function that explains why a write of one of the two records was rejected. */
export function explainPair(context: OperationContext): ExplainViolation {
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
  const condition = `${visibleSql(context, 'delete', $)} and ${record}."id" = ${pairSql($).source}`;
  const removed = `${removalSql({ removal }, tableOf(context), undefined, condition)} returning ${record}.*`;
  const assignments = assignmentsOf(context.definition, 'update', $, (field) => combined(context, field, $));
  // References from the record to the other one that the caller cannot write.
  const cleared = ownReferences(context)
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
