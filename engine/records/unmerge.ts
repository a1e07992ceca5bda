import { foreignKeyViolation, sqlState, type TextRows } from '../database/index.ts';
import { errors, type HttpError } from '../errors.ts';
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
  trashedColumn,
  versionColumn,
} from '../sql/index.ts';
import { type Assignment, assignmentsOf, serverValue } from './assignments.ts';
import { prepareBatch } from './batch.ts';
import type { Referrer } from './delete-rules.ts';
import { reserveRecords } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { namesOf, violatedUnique } from './indexes.ts';
import {
  bothSql,
  explainMove,
  type MergePlan,
  mergedColumns,
  mergePlan,
  movedSql,
  ownReferences,
  row,
} from './merge.ts';
import { isKeptMerge, keptMerge, mergesTable, pairSql, undoDays } from './merge-tables.ts';
import type { Operation, OperationContext, UpdateInput } from './operation.ts';
import { preconditionsSql } from './preconditions.ts';
import { etagHeader, type RecordResult } from './results.ts';
import { organizationOf, outsideScope, returningSql, visibleSql } from './rows.ts';
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
import { violations } from './violations.ts';

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
    return {
      plan: (input) => mergePlan(context, isTrashed ? 'restore' : 'create', input),
      statement: final.bind,
      transaction: (plan) => ({
        lane: 'batch',
        ...(!isTrashed && { reserve: async (database) => reserveRecords(database, plan.organization, 1) }),
        run: async ({ run }) => {
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
  const { definition, effects, referrers, resources } = context;
  const lock = prepareBatch<MergePlan>(($) => lockSql(context, $));
  const check = prepareBatch<MergePlan>(($) => checkSql(context, $));
  const takeBack = (part: Parameters<typeof takenBackSql>[1]) => ({
    statement: prepareBatch<MergePlan>(($) => takenBackSql(context, part, $)),
    explain: explainRecord(context),
  });
  const source = {
    statement: prepareBatch<MergePlan>(($) =>
      context.stored.trash === undefined ? recreatedSql(context, $) : restoredSql(context, $),
    ),
    explain: explainRecord(context),
  };
  const references = referrers.get(definition.name) ?? [];
  const moves = [...Map.groupBy(references, ({ resource }) => resource)].map(([resource, fields]) => {
    const visible = resources.get(resource);
    if (visible === undefined) throw new Error(`Unknown resource ${resource}`);
    return {
      statement: prepareBatch<MergePlan>(($) => {
        organizationOf($);
        const assignments = fields.map((field) => movedBack(field, $));
        const ids = fields.map((field) => `select ${idsSql(resource, field.column)}`).join(' union ');
        const kept = `(select ${keptMerge}."moved" from ${quote(mergesTable)} ${keptMerge} where ${isKeptMerge(definition.name, $)}) ${keptMerge}`;
        const condition = `${row}."id" in (${ids}) and true = any(array[${fields.map((field) => isMovedBack(field, $)).join(', ')}])`;
        const moved = movedSql(context, visible, assignments, condition, $, ` from ${kept}`);
        return `with ${moved} select count(*)::text from _moved`;
      }),
      explain: explainMove(context, resource),
    };
  });
  const stored = effects.flatMap(({ ofMerge }) =>
    ofMerge === undefined
      ? []
      : [
          prepareBatch<MergePlan>(($) => {
            organizationOf($);
            const { target, source } = pairSql($);
            const { name } = definition;
            const rows = `select _i.key::bigint from ${quote(mergesTable)} ${keptMerge} cross join lateral jsonb_each(${keptMerge}."moved" -> ${literal(ofMerge.table)} -> '') _i where ${isKeptMerge(name, $)}`;
            return ofMerge.move({
              ...{ resource: name, organization: organizationOf($), id: source, from: target, rows },
            });
          }),
        ],
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
      for (const { statement, explain } of writes)
        await run(statement.bind(plan)).catch((cause: unknown) => {
          throw explain(cause) ?? cause;
        });
      for (const { bind } of [...stored, ...recalculated, forget]) await run(bind(plan));
    },
  };
}

/** Returns the statement that locks the records of a merge: the one that remained, and the other one in the trash. */
function lockSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  organizationOf($);
  const trashed: OperationContext = { ...context, trashed: 'only' };
  const columns = [
    `${record}."id"`,
    `${visibleSql(context, 'update', $)}`,
    context.stored.trash === undefined ? 'true' : `${visibleSql(trashed, 'restore', $)}`,
    `coalesce(${preconditionsSql(context, $)}, true)`,
  ];
  return `select ${columns.map((value, index) => `(${value})::text as _c${index}`).join(', ')} from ${tableOf(context)} ${record} where ${bothSql($)} order by ${record}."id" for update of ${record}`;
}

const decodeLocked = rowDecoder({
  id: cell.text,
  isUpdatable: cell.flag,
  isRestorable: cell.flag,
  isMet: cell.flag,
});

/**
 * Checks the locked records.
 * @throws HttpError 404 if the caller cannot update the record that remained, 409 if it cannot restore the other one, or 412 if
 * the record has another version
 */
function rejectLocked({ definition, stored }: OperationContext, plan: MergePlan, rows: TextRows): void {
  const locked = rows.map((cells) => decodeLocked(cells));
  const target = locked.find(({ id }) => id === plan.id);
  const source = locked.find(({ id }) => id === plan.from);
  if (target?.isUpdatable !== true) throw errors.recordNotFound(definition.singular);
  if (plan.conditions !== undefined && !target.isMet) throw errors.preconditionFailed();
  if (stored.trash !== undefined && source?.isRestorable !== true)
    throw errors.mergeNotUndoable(`record ${plan.from} is not in the trash`);
  if (stored.trash === undefined && source !== undefined)
    throw errors.mergeNotUndoable(`record ${plan.from} exists`);
}

/** Returns the statement that locks a merge's row and checks whether the merge can be undone. */
function checkSql(context: OperationContext, $: Placeholder<MergePlan>): string {
  const { definition, stored, referrers, effects } = context;
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
    ...effects.flatMap(({ ofMerge }) => (ofMerge === undefined ? [] : [`${ofMerge.table}.`])),
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

const fieldsChanged = ({ definition: { name } }: OperationContext): string =>
  `the fields of ${name} have changed since`;

/** @throws HttpError 409 if the merge cannot be undone */
function rejectMerge(context: OperationContext, [cells]: TextRows): void {
  const found = cells === undefined ? undefined : decodeMerge(cells);
  if (found?.isRecent !== true)
    throw errors.mergeNotUndoable(`the records were not merged in the last ${undoDays} days`);
  if (!found.isSameShape) throw errors.mergeNotUndoable(fieldsChanged(context));
  if (!found.isWritable) throw errors.mergeNotUndoable('it changed fields that you cannot write');
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
  const assignments = [
    ...assignmentsOf(context.stored, 'update', $, () => []),
    { column: quote(trashedColumn), value: 'null' },
  ];
  const condition = `${visibleSql({ ...context, trashed: 'only' }, 'restore', $)} and ${record}."id" = ${pairSql($).source}`;
  const update = updateOf(context, assignments, condition);
  return `with _written as (${update} returning ${record}.*)${effectsOf(context, 'restore', $, { name: '_written' })} select 1 from _written`;
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
  const overrides = [
    ...references,
    ...server,
    ['organization_id', organization] as const,
    [versionColumn, `${old}.${quote(versionColumn)} + 1`] as const,
  ].map(([name, value]) => `jsonb_build_object(${literal(name)}, ${value})`);
  const table = quote(definition.name);
  const rows = `${quote(mergesTable)} ${keptMerge} cross join lateral jsonb_populate_record(null::${table}, ${keptMerge}."removed"::jsonb) ${old} cross join lateral jsonb_populate_record(${old}, ${overrides.join(' || ')}) _n`;
  const insert = `insert into ${tableOf(context)} select _n.* from ${rows} where ${isKeptMerge(definition.name, $)} ${returningSql(context, 'create', $, '')}`;
  return `with _written as (${insert})${effectsOf(context, 'create', $, { name: '_written' })} select 1 from _written`;
}

/** Returns a SELECT list and FROM clause for the IDs of a resource's rows whose reference the merge has moved. */
const idsSql = (resource: string, name: string): string =>
  `_i.key::bigint from jsonb_each(${movedOf(resource, name)}) _i`;

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
function explainRecord(context: OperationContext) {
  const explainRule = violations(context);
  return (cause: unknown): HttpError | undefined => {
    const unique = violatedUnique(context.stored, cause);
    if (unique !== undefined) return errors.duplicate(namesOf(unique));
    const violation = outsideScope(cause) ?? explainRule(cause);
    if (violation !== undefined) return violation;
    const state = sqlState(cause);
    if (state === foreignKeyViolation)
      return errors.mergeNotUndoable('a record to which the other record refers does not exist anymore');
    // A stored value cannot be converted to the present type of its field.
    return state?.startsWith('22') === true ? errors.mergeNotUndoable(fieldsChanged(context)) : undefined;
  };
}
