import { foreignKeyViolation, sqlState, type TextRows } from '../database/index.ts';
import { errors, type MergeReason } from '../errors.ts';
import { type Field, fieldColumns, linksOf, refersToMany } from '../fields/index.ts';
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
  versionColumn,
} from '../sql/index.ts';
import { type Assignment, assignmentsOf, serverValue } from './assignments.ts';
import { prepareBatch } from './batch.ts';
import type { Referrer } from './delete-rules.ts';
import type { TransactionExecutor } from './executor.ts';
import {
  explainMove,
  explainPair,
  lockedPair,
  lockPairSql,
  type MergePlan,
  mergedColumns,
  mergePlan,
  movedEffects,
  movedSql,
  ownReferences,
  referringResources,
  row,
  runExplained,
} from './merge.ts';
import { isKeptMerge, keptMerge, mergesTable, pairSql } from './merge-tables.ts';
import type { Operation, OperationContext, ProjectedResource, UpdateInput } from './operation.ts';
import { restoreSql } from './restore.ts';
import { etagHeader, type RecordResult } from './results.ts';
import { organizationOf, returningSql, visibleSql } from './rows.ts';
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
} from './statements.ts';
import { recalculateSql, storedRollups } from './stored-rollups.ts';
import type { ExplainViolation } from './violations.ts';

/** Number of days for which a merge can be undone. */
export const undoDays = 30;

// Aliases of the values before the merge, and of the merge's row within them.
const [before, after] = ['_before', '_after'];

const customKeys = ({ customKeys }: MergePlan) => customKeys;

/**
 * `POST /R/{id}/unmerge`: undoes the merge of another record into this one. The other record exists again with its ID, the
 * references that the merge moved point to it again, and the fields that the merge filled are blank again. Fields and references
 * that have changed since keep their values.
 */
export const unmerge: Operation<MergePlan, UpdateInput, RecordResult> = {
  method: 'POST',
  path: '/:id/unmerge',
  action: 'update',
  status: 200,
  responseHeaders: etagHeader,
  sampleBody: { from: 2 },
  compile: (context) => {
    const isTrashed = context.stored.trash !== undefined;
    const final = prepare<MergePlan>(statementName(context, 'unmerge'), 'write', ($) => {
      organizationOf($);
      return `${selectResult(context, tableOf(context), $)} where ${byIdSql(context, 'update', $)}`;
    });
    const steps = compileUnmergeSteps(context);
    // A record in the trash counts already.
    const creates = isTrashed ? 0 : 1;
    return {
      plan: (input) => mergePlan(context, isTrashed ? 'restore' : 'create', input),
      statement: final.bind,
      transaction: (plan) => ({
        lane: 'batch',
        creates,
        run: async ({ run, reserve }) => {
          reserve(creates);
          await steps.run(run, plan);
          return run(final.bind(plan));
        },
      }),
      result: (_, rows) => recordResult(context, decodeWritten(foundRow(context, rows))),
    };
  },
  describe: ({ definition, aRecord, recordName }) => ({
    operationId: `unmerge${recordName}`,
    summary: `Undo the merge of another record into ${aRecord}`,
    body: { description: 'The ID of the other record.', schema: 'MergeSource' },
    success: {
      description: `The ${definition.singular.replaceAll('_', ' ')} without the values that the merge filled in. The other record exists again, and the references that the merge moved point to it again. What has changed since the merge stays.`,
      schema: recordName,
    },
  }),
};

/** The steps that undo a merge. */
interface UnmergeSteps {
  readonly statements: readonly Prepared<MergePlan>[];
  readonly run: (run: TransactionExecutor['run'], plan: MergePlan) => Promise<void>;
}

/** Compiles the steps that undo a merge. */
export function compileUnmergeSteps(context: OperationContext): UnmergeSteps {
  const { definition, resources } = context;
  const lock = prepareBatch<MergePlan>(($) => {
    organizationOf($);
    const isRestorable =
      context.stored.trash === undefined ? 'true' : visibleSql(inTrash(context), 'restore', $);
    return lockPairSql(context, isRestorable, $);
  });
  const check = prepareBatch<MergePlan>(($) => checkSql(context, $));
  const explain = explainRecord(context);
  const takeBack = (part: Parameters<typeof takenBackSql>[1]) => ({
    statement: prepareBatch<MergePlan>(($) => takenBackSql(context, part, $)),
    explain,
  });
  const source = {
    statement: prepareBatch<MergePlan>(($) =>
      context.stored.trash === undefined ? recreatedSql(context, $) : restoredSql(context, $),
    ),
    explain,
  };
  const moves = referringResources(context).map(({ visible, references }) => ({
    statement: prepareBatch<MergePlan>(($) => moveBackSql(context, visible, references, $)),
    explain: explainMove(context, visible),
  }));
  const stored = movedEffects(context).map(({ table, move }) =>
    prepareBatch<MergePlan>(($) => {
      const { name } = definition;
      const organization = organizationOf($);
      const { target, source } = pairSql($);
      const rows = `select _i.key::bigint from ${quote(mergesTable)} ${keptMerge} cross join lateral jsonb_each(${movedOf(table, '')}) _i where ${isKeptMerge(name, $)}`;
      return move({ resource: name, organization, id: source, from: target, rows });
    }),
  );
  const rollups = storedRollups(
    context.stored,
    [...resources.values()].map(({ stored }) => stored),
  );
  const recalculated =
    rollups.of.length === 0
      ? []
      : [
          prepareBatch<MergePlan>(($) =>
            recalculateSql(rollups, {
              organizations: `array[${organizationOf($)}]`,
              ids: `array[${pairSql($).source}]`,
            }),
          ),
        ];
  const forget = prepareBatch<MergePlan>(
    ($) => `delete from ${quote(mergesTable)} ${keptMerge} where ${isKeptMerge(definition.name, $)}`,
  );
  // The other record's unique values must be free before it is written, and it must exist before anything refers to it.
  const writes = [
    takeBack('other fields'),
    source,
    ...(ownReferences(context).length === 0 ? [] : [takeBack('own references')]),
    ...moves,
  ];
  return {
    statements: [
      lock,
      check,
      ...writes.map(({ statement }) => statement),
      ...stored,
      ...recalculated,
      forget,
    ],
    run: async (run, plan) => {
      rejectLocked(context, plan, await run(lock.bind(plan)));
      rejectMerge(context, await run(check.bind(plan)));
      for (const write of writes) await runExplained(run, write, plan);
      for (const { bind } of [...stored, ...recalculated, forget]) await run(bind(plan));
    },
  };
}

/** Returns the context whose statements access the records in the trash. */
const inTrash = (context: OperationContext): OperationContext => ({ ...context, trashed: 'only' });

/**
 * Checks the locked records.
 * @throws HttpError 404 if the caller cannot update the record that remained, 409 if it cannot restore the other one, or 412 if
 * the record has another version
 */
function rejectLocked({ definition, stored }: OperationContext, plan: MergePlan, rows: TextRows): void {
  const { target, source } = lockedPair(plan, rows);
  if (target?.isUpdatable !== true) throw errors.recordNotFound(definition.singular);
  if (plan.conditions !== undefined && !target.isMet) throw errors.preconditionFailed();
  if (stored.trash !== undefined && source?.isWritable !== true)
    throw errors.mergeNotUndoable({ kind: 'notInTrash', id: plan.from });
  if (stored.trash === undefined && source !== undefined)
    throw errors.mergeNotUndoable({ kind: 'exists', id: plan.from });
}

/** Returns the statement that locks a merge's row and checks whether the merge can be undone. */
function checkSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  const { definition, stored, referrers } = context;
  organizationOf($);
  const table = quote(definition.name);
  const columns = `jsonb_object_keys(to_jsonb(jsonb_populate_record(null::${table}, '{}')))`;
  const [removed, changed] = [`${keptMerge}."removed"`, `${keptMerge}."after"::jsonb`];
  const differences = `select from jsonb_object_keys(${removed}::jsonb) _x full join ${columns} _y on _x = _y where num_nulls(_x, _y) > 0`;
  const isSameShape =
    stored.trash === undefined
      ? `case when ${removed} = '' then false else not exists (${differences}) end`
      : `${removed} = ''`;
  const isKnown = `not exists (select from jsonb_object_keys(${changed}) _x where _x <> all(array(select ${columns})))`;
  const known = [
    ...(referrers.get(definition.name) ?? []).map(({ resource, column: name }) => `${resource}.${name}`),
    ...movedEffects(context).map(({ table }) => `${table}.`),
  ];
  const movedIsKnown = `not exists (select from jsonb_each(${keptMerge}."moved") _x cross join lateral jsonb_object_keys(_x.value) _y where _x.key || '.' || _y <> all(${$(() => known)}::text[]))`;
  const writableColumns = mergedColumns(context);
  const isWritable = `not exists (select from jsonb_object_keys(${changed}) _x where _x <> all(${$(() => writableColumns)}::text[]))`;
  const custom = definition.fields.filter(({ type, readOnly }) => type.custom === true && !readOnly);
  const customIsWritable = custom.flatMap(fieldColumns).map(({ name }) => {
    const [was, is] = [`${keptMerge}."before"::jsonb -> ${literal(name)}`, `${changed} -> ${literal(name)}`];
    return `not exists (select from jsonb_each(coalesce(${is}, '{}')) _x where _x.value is distinct from ${was} -> _x.key and _x.key <> all(${$(customKeys)}::text[]))`;
  });
  const flags = [
    `${keptMerge}."merged_at" > now() - interval '${undoDays} days'`,
    `${isSameShape} and ${isKnown} and ${movedIsKnown}`,
    [isWritable, ...customIsWritable].join(' and '),
  ];
  return `select ${flags.map((flag, index) => `(${flag})::text as _f${index}`).join(', ')} from ${quote(mergesTable)} ${keptMerge} where ${isKeptMerge(definition.name, $)} for update`;
}

const decodeMerge = rowDecoder({ isRecent: cell.flag, isSameShape: cell.flag, isWritable: cell.flag });

const fieldsChanged = ({ definition: { name } }: OperationContext): MergeReason => ({
  ...{ kind: 'fieldsChanged', resource: name },
});

/** @throws HttpError 409 if the merge cannot be undone */
function rejectMerge(context: OperationContext, [cells]: TextRows): void {
  const found = cells === undefined ? undefined : decodeMerge(cells);
  if (found?.isRecent !== true) throw errors.mergeNotUndoable({ kind: 'tooOld', days: undoDays });
  if (!found.isSameShape) throw errors.mergeNotUndoable(fieldsChanged(context));
  if (!found.isWritable) throw errors.mergeNotUndoable({ kind: 'notWritable' });
}

/**
 * Returns a FROM clause item with a record before the merge as {@link before}, and the changed values after it. Both contain only
 * the columns that the merge has changed.
 */
const beforeSql = ({ definition: { name } }: OperationContext, $: Placeholder<MergePlan>): string =>
  `(select ${keptMerge}."after"::jsonb as _values, _p as _row from ${quote(mergesTable)} ${keptMerge} cross join lateral jsonb_populate_record(null::${quote(name)}, ${keptMerge}."before"::jsonb) _p where ${isKeptMerge(name, $)}) ${before}`;

/**
 * Returns the statement that takes back the values that the record got from the other one.
 * @param part the references within the resource, which can lead to the other record, or all other fields
 */
function takenBackSql(
  context: OperationContext,
  part: 'own references' | 'other fields',
  $: Placeholder<MergePlan>,
): string {
  const { definition } = context;
  organizationOf($);
  const own = new Set(ownReferences(context).map(({ column: name }) => name));
  const isChanged = (name: string) => `jsonb_exists(${after}, ${literal(name)})`;
  const assigned = (columns: readonly string[]): readonly Assignment[] => {
    const isSame = (name: string) =>
      `coalesce(to_jsonb(${column({ name })}), 'null') = ${after} -> ${literal(name)}`;
    // A field whose value has changed since the merge keeps it.
    const condition = columns
      .map((name) => `case when ${isChanged(name)} then ${isSame(name)} else true end`)
      .join(' and ');
    return columns.map((name) => ({
      column: quote(name),
      value: `case when ${isChanged(name)} and ${condition} then (${before}._row).${quote(name)} else ${column({ name })} end`,
    }));
  };
  const isOfPart = (names: readonly string[]) =>
    names.some((name) => own.has(name)) === (part === 'own references');
  const written = definition.fields.filter(({ readOnly }) => !readOnly);
  const namesOfColumns = (field: Field) => fieldColumns(field).map(({ name }) => name);
  // An assignment would be merged into the stored values of custom fields, and not remove any.
  const custom = written.filter(({ type }) => type.custom === true);
  const assignments = assignmentsOf(definition, 'update', $, (field) => {
    const names = namesOfColumns(field);
    return isOfPart(names) && !custom.includes(field) ? assigned(names) : [];
  });
  const known = new Set(written.flatMap(namesOfColumns));
  const hidden = [...own].filter((name) => !known.has(name)).map((name) => [name]);
  const others = [...custom.map(namesOfColumns), ...hidden].filter(isOfPart).flatMap(assigned);
  const from = ` from ${beforeSql(context, $)} cross join lateral (select ${before}._values) _v(${after})`;
  const found = byIdSql(context, 'update', $);
  // The record is written a second time only if one of the references has changed.
  const condition =
    part === 'own references'
      ? `${found} and jsonb_exists_any(${after}, ${$(() => [...own])}::text[])`
      : found;
  const update = updateOf(context, [...assignments, ...others], condition, from);
  return `with _written as (${update} ${returningSql(context, 'update', $)})${effectsOf(context, 'update', $, { name: '_written' })} select 1 from _written`;
}

/** Returns the statement that restores the other record from the trash. */
function restoredSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  organizationOf($);
  const condition = `${visibleSql(inTrash(context), 'restore', $)} and ${record}."id" = ${pairSql($).source}`;
  return `with _written as (${restoreSql(context, condition, $)})${effectsOf(context, 'restore', $, { name: '_written' })} select 1 from _written`;
}

/**
 * Returns the statement that creates the other record again, with its ID. References to records that no longer exist become
 * null, and stored rollups must be calculated again.
 */
function recreatedSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  const { definition, stored } = context;
  const old = '_p';
  const organization = organizationOf($);
  const existing = ({ to = definition.name }: Field, value: string) => {
    const isFound = `exists (select from ${quote(to)} _x where _x."organization_id" = ${organization} and _x."id" = ${value})`;
    // The record can refer to itself.
    return to === definition.name
      ? `case when ${value} = ${old}."id" then true else ${isFound} end`
      : isFound;
  };
  const references = stored.fields
    .flatMap(linksOf)
    .filter(({ nullable, type }) => nullable || type.element !== undefined)
    .map((link) => {
      const value = `${old}.${quote(link.name)}`;
      return [
        link.name,
        refersToMany(link)
          ? `array(select _e from unnest(${value}) _e where ${existing(link, '_e')} order by 1)`
          : `case when ${existing(link, value)} then ${value} end`,
      ] as const;
    });
  const server = stored.fields.flatMap((field) => {
    const value = serverValue(field, 'update', $);
    return value === undefined ? [] : [[field.name, value] as const];
  });
  // After the version of the deletion, which is at least the next one, and later if the merge changed the record itself.
  const last = `select max(_l."version") from "crm_ledger" _l where _l."organization_id" = ${organization} and _l."object" = ${literal(definition.name)} and _l."object_id" = ${old}."id"`;
  const version = `greatest(${old}.${quote(versionColumn)} + 1, (${last})) + 1`;
  const overrides = [
    ...references,
    ...server,
    ['organization_id', organization] as const,
    [versionColumn, version] as const,
  ].map(([name, value]) => `jsonb_build_object(${literal(name)}, ${value})`);
  const table = quote(definition.name);
  const rows = `${quote(mergesTable)} ${keptMerge} cross join lateral jsonb_populate_record(null::${table}, ${keptMerge}."removed"::jsonb) ${old} cross join lateral jsonb_populate_record(${old}, ${overrides.join(' || ')}) _n`;
  const insert = `insert into ${tableOf(context)} select _n.* from ${rows} where ${isKeptMerge(definition.name, $)} ${returningSql(context, 'create', $, '')}`;
  return `with _written as (${insert})${effectsOf(context, 'create', $, { name: '_written' })} select 1 from _written`;
}

/** Returns the statement that moves references in the records of a resource back to the other record. */
function moveBackSql(
  context: OperationContext,
  visible: ProjectedResource,
  references: readonly Referrer[],
  $: Placeholder<MergePlan>,
): string {
  organizationOf($);
  const resource = visible.stored.name;
  const assignments = references.map((reference) => movedBack(reference, $));
  const ids = references
    .map(({ column: name }) => `select _i.key::bigint from jsonb_each(${movedOf(resource, name)}) _i`)
    .join(' union ');
  const kept = `(select ${keptMerge}."moved" from ${quote(mergesTable)} ${keptMerge} where ${isKeptMerge(context.definition.name, $)}) ${keptMerge}`;
  const isMoved = references.map((reference) => isMovedBack(reference, $)).join(', ');
  const condition = `${row}."id" in (${ids}) and true = any(array[${isMoved}])`;
  const moved = movedSql(context, visible, assignments, condition, $, ` from ${kept}`);
  return `with ${moved} select count(*)::text from _moved`;
}

/** Returns an SQL expression for the rows of a table that the merge has moved, by ID. */
const movedOf = (resource: string, name: string): string =>
  `${keptMerge}."moved" -> ${literal(resource)} -> ${literal(name)}`;

/** Returns the condition that a row's reference was moved by the merge, and has not changed since. */
function isMovedBack({ resource, column: name, isList }: Referrer, $: Placeholder<MergePlan>): string {
  const stored = `${row}.${quote(name)}`;
  const { target } = pairSql($);
  const isSame = isList ? `${target} = any(${stored})` : `${stored} = ${target}`;
  return `coalesce(jsonb_exists(${movedOf(resource, name)}, ${row}."id"::text) and ${isSame}, false)`;
}

/** Returns the assignment that moves a reference back to the other record, and keeps references that have changed since. */
function movedBack(reference: Referrer, $: Placeholder<MergePlan>): string {
  const { resource, column: name, isList } = reference;
  const stored = `${row}.${quote(name)}`;
  const { target, source } = pairSql($);
  const isBoth = `${movedOf(resource, name)} -> ${row}."id"::text = 'true'`;
  const kept = `case when ${isBoth} then ${stored} else array_remove(${stored}, ${target}) end`;
  const value = isList ? `array(select distinct _e from unnest(${kept} || ${source}) _e order by 1)` : source;
  return `${quote(name)} = case when ${isMovedBack(reference, $)} then ${value} else ${stored} end`;
}

/** Returns a function that explains why one of the two records could not be written. */
function explainRecord(context: OperationContext): ExplainViolation {
  const explain = explainPair(context);
  return (cause) => {
    const violation = explain(cause);
    if (violation !== undefined) return violation;
    const state = sqlState(cause);
    if (state === foreignKeyViolation) return errors.mergeNotUndoable({ kind: 'missingReference' });
    // A stored value cannot be converted to the present type of its field.
    return state?.startsWith('22') === true ? errors.mergeNotUndoable(fieldsChanged(context)) : undefined;
  };
}
