import type { TextRows } from '../database/index.ts';
import type { ResourceDefinition } from '../definition/index.ts';
import { errors } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';
import {
  encodeCursor,
  foreignCursorIssue,
  pageSize,
  parseCursor,
  positionText,
  type UnverifiedCursor,
} from '../query/index.ts';
import {
  arrayText,
  cell,
  literal,
  type Placeholder,
  prepare,
  record,
  rowDecoder,
  rowKinds,
  type Statement,
} from '../sql/index.ts';
import { loggedFieldNames, selectChangeStates, selectChanges } from './changes.ts';
import type {
  CompiledOperation,
  HistoryInput,
  Operation,
  OperationContext,
  OperationInput,
  OperationPlan,
  TextSigner,
} from './operation.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import type { HistoryResult } from './results.ts';
import { type CallerScope, organizationOf, readAccess } from './rows.ts';
import { type ById, byIdSql, statementName, tableOf } from './statements.ts';
import { type ChangeView, limitsChanges, visibleChanges } from './visible-changes.ts';

/** Schema names for a change and a list of changes in the OpenAPI document. */
export const changeSchema = 'Change';
const changesSchema = 'Changes';

const int64 = { type: 'integer', format: 'int64' };
const nullable = (type: string) => ({ type: [type, 'null'] });
const recordSchema = (description: string): JsonSchema => ({
  type: ['object', 'null'],
  description,
  additionalProperties: true,
});

/** Past tenses of actions, for the types of events. */
export const pastTenses: Readonly<Record<string, string>> = {
  create: 'created',
  update: 'updated',
  delete: 'deleted',
  trash: 'trashed',
  restore: 'restored',
  purge: 'purged',
};

/** Actions after which callers no longer find the record. */
export const removalActions: readonly string[] = ['delete', 'trash', 'purge'];

/** Returns the description of a change's action. Only resources with a trash have the actions of the trash. */
export const changeActionsText = (resources: readonly Pick<ResourceDefinition, 'trash'>[]): string =>
  resources.some(({ trash }) => trash !== undefined)
    ? '`create`, `update` or `delete`; for resources with a trash, `trash`, `restore` or `purge` instead of `delete`.'
    : '`create`, `update` or `delete`.';

/** Returns the OpenAPI schemas for changes to records of these resources. */
export const changeSchemas = (
  resources: readonly Pick<ResourceDefinition, 'trash'>[],
): Readonly<Record<string, JsonSchema>> => ({
  [changeSchema]: {
    type: 'object',
    description: 'A change to a record.',
    required: [
      'position',
      'at',
      'actor',
      'request_id',
      'resource',
      'id',
      'action',
      'version',
      'changed',
      'before',
      'after',
    ],
    properties: {
      position: { type: 'string', description: 'Identifies the change.' },
      at: { type: 'string', format: 'date-time', description: 'Start time of the transaction, in UTC.' },
      actor: {
        type: 'object',
        description:
          "The key or user that made the change. `name` is the key's name or the user's email address at that time. Without the grant `members:list`, it is another user's current name, or null if it has not been entered.",
        required: ['kind', 'id', 'name'],
        properties: {
          kind: { type: 'string', description: '`user`, `key`, `partner` or `command`.' },
          id: { ...int64, ...nullable('integer') },
          name: nullable('string'),
        },
      },
      request_id: nullable('string'),
      resource: { type: 'string' },
      id: int64,
      action: { type: 'string', description: changeActionsText(resources) },
      version: {
        ...int64,
        description: 'Increases with every change to the record. A lower version is an older change.',
      },
      changed: {
        type: 'array',
        items: { type: 'string' },
        description: 'The fields that changed, or all fields if the record was created or deleted.',
      },
      before: recordSchema(
        'The record before the change, without joined and sensitive fields; null if it did not exist or is unknown.',
      ),
      after: recordSchema(
        'The record after the change, without joined and sensitive fields; null if it was deleted.',
      ),
    },
  },
  [changesSchema]: {
    type: 'object',
    required: ['data'],
    properties: { data: { type: 'array', items: { $ref: `#/components/schemas/${changeSchema}` } } },
  },
});

/** The plan for a page of a record's history. */
export interface HistoryPlan extends OperationPlan, ById {
  /** The position after which the page starts; undefined for the first page. */
  readonly after: UnverifiedCursor | undefined;
  readonly signing: TextSigner | undefined;
}

/** `GET /R/{id}/history`: the changes to a record, newest first, even if the record was deleted. */
export const history: Operation<HistoryPlan, HistoryInput, HistoryResult> = {
  method: 'GET',
  path: '/:id/history',
  action: 'read',
  status: 200,
  responseHeaders: {
    Link: {
      description: 'The next page of older changes (`rel="next"`), unless this is the last page.',
      schema: { type: 'string' },
    },
  },
  compile: (context) => {
    const { definition } = context;
    const { name } = definition;
    const { excerpt, view } = context;
    /** Returns the text covered by a cursor's signature: the history as the caller sees it, and the position in it. */
    const signedText = ({ organization, id }: HistoryPlan, position: string) =>
      JSON.stringify([organization, name, 'history', id, position, ...(view === '' ? [] : [view])]);
    const kinds = rowKinds({
      change: { json: cell.text, version: cell.text, ...(excerpt !== undefined && { hasMore: cell.flag }) },
      /** The record exists but has no changes. */
      unchanged: {},
    });
    const { bind } = prepare<HistoryPlan>(statementName(context, 'history'), 'deep', ($) => {
      const condition = changesOf(name, $);
      const olderThan = `_l."version" < coalesce(${$(({ after }) => after?.id ?? null)}::bigint, 9223372036854775807)`;
      const page = `${visibleRows(context, `select * from "crm_ledger" _l where ${condition} and ${olderThan}`, $)} order by _l."version" desc limit ${pageSize}`;
      const rows = excerpt === undefined ? page : upToBytes(page);
      // A page of excerpts can end before it is full, so the statement returns whether older changes exist.
      const hasMoreColumn = excerpt === undefined ? '' : `, (l."_place" < l."_count")::text`;
      const fields = loggedFieldsSql(definition);
      const extraColumns = `, l."version"::text${hasMoreColumn}`;
      const changes = selectChanges({ rows, fields, order: newestFirst, extraColumns, excerpt }, $);
      return `with _changes as (${changes}) select ${kinds.select('change', '*')} from _changes union all select ${kinds.select('unchanged')} from ${tableOf(context)} ${record} where ${byIdSql(context, 'read', $)} and not exists (select from _changes)`;
    });
    return {
      plan: (input) => {
        rejectRequest(unknownParameters(input, [...commonParameters, 'cursor']));
        const { signing } = input;
        const plan = { ...basePlan(input), id: recordId(context, input), signing };
        const after = cursorOf(input);
        const isValid =
          after === undefined || signing?.verify(signedText({ ...plan, after }, after.text), after.signature);
        if (isValid !== true) rejectRequest([foreignCursorIssue()]);
        return { ...plan, after };
      },
      statement: bind,
      readsOnly: readAccess(context),
      result: (plan, rows) => {
        const { signing } = plan;
        if (rows.length === 0 && plan.after === undefined) throw errors.recordNotFound(definition.singular);
        const pageRows = rows.map(kinds.decode).filter((row) => row.kind === 'change');
        const changes = pageRows.map(({ json }) => json);
        const last = pageRows.at(-1);
        const hasMore = pageRows.length === pageSize || last?.hasMore === true;
        if (signing === undefined || last === undefined || !hasMore)
          return { kind: 'history', changes, next: undefined };
        const text = positionText({ page: 1n, keys: [null], id: last.version });
        const next = encodeCursor(text, signing.sign(signedText(plan, text)));
        return { kind: 'history', changes, next };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `get${recordName}History`,
    summary: `List the changes to ${aRecord}`,
    parameters: [{ $ref: '#/components/parameters/cursor' }],
    success: {
      description: `Up to ${pageSize} changes, newest first. The record may already have been deleted.`,
      schema: changesSchema,
    },
  }),
};

/**
 * Returns the statement that selects a record's rows of the change log, with the alias `_l`, as the caller sees them.
 * @param rows selects all of the record's rows
 */
function visibleRows(context: OperationContext, rows: string, $: Placeholder<CallerScope>): string {
  const view: ChangeView = { resources: [context], action: 'read' };
  return limitsChanges(view) ? `select * from (${visibleChanges(rows, view, $)}) _l` : rows;
}

/** ORDER BY expression for rows `l` of the change log. */
const newestFirst = 'l."version" desc';

/** Returns an SQL expression for an array of logged field names. */
export const loggedFieldsSql = (definition: OperationContext['definition']): string =>
  `${literal(arrayText(loggedFieldNames(definition)))}::text[]`;

/** Returns an SQL condition that is true if row `_l` of the change log is a change to the plan's record. */
const changesOf = (resource: string, $: Placeholder<ById>): string =>
  `_l."organization_id" = ${organizationOf($)} and _l."object" = ${literal(resource)} and _l."object_id" = ${$(idOf)}::bigint`;

const idOf = ({ id }: ById): string => id;

/**
 * Maximum total size of the records read for a page of excerpts, in bytes. The first change can exceed it.
 */
const pageBytes = 2 * 1024 * 1024;

/**
 * Limits a page's rows to a total size of {@link pageBytes}. PostgreSQL can determine the size of a value
 * without reading it.
 */
const upToBytes = (page: string): string => {
  const size = `coalesce(octet_length(_l."record"), 0) + coalesce(octet_length(_l."before"), 0)`;
  const newer = 'order by _l."version" desc rows between unbounded preceding and 1 preceding';
  return [
    `select * from (select _l.*, coalesce(sum(${size}) over (${newer}), 0) as "_bytes",`,
    `row_number() over (order by _l."version" desc) as "_place", count(*) over () as "_count" from (${page}) _l) _p`,
    `where _p."_bytes" < ${pageBytes}`,
  ].join(' ');
};

/** A plan that reads one change to a record, by the change's position. */
export interface ChangePlan extends OperationPlan, ById {
  readonly position: readonly [transaction: string, id: string];
}

const decodeChange = rowDecoder({ json: cell.text });
const positionPattern = /^(\d{1,19})-(\d{1,18})$/;

/** The input for reading one change to a record. */
export interface ChangeInput extends OperationInput, Pick<HistoryInput, 'id'> {
  /** The change's position, from {@link HistoryResult}. */
  readonly position: string;
}

/** Compiles the operation that reads one change, for the admin UI. The API only lists changes. */
export function compileChange(
  context: OperationContext,
): CompiledOperation<ChangePlan, ChangeInput, HistoryResult> {
  const { definition } = context;
  const { bind } = prepare<ChangePlan>(statementName(context, 'change'), 'deep', ($) =>
    selectChanges(
      { rows: rowsAtPosition(context, $), fields: loggedFieldsSql(definition), order: newestFirst },
      $,
    ),
  );
  return {
    plan: changePlanOf(context),
    statement: bind,
    readsOnly: readAccess(context),
    result: (_plan, [row]) => {
      if (row === undefined) throw errors.notFound();
      return { kind: 'history', changes: [decodeChange(row).json], next: undefined };
    },
  };
}

/** Returns the statement that selects the change at the plan's position as the caller sees it. */
export function rowsAtPosition(context: OperationContext, $: Placeholder<ChangePlan>): string {
  const atPosition = `_l."transaction" = ${$(({ position }) => position[0])}::xid8 and _l."id" = ${$(({ position }) => position[1])}::bigint`;
  const rows = `select * from "crm_ledger" _l where ${changesOf(context.definition.name, $)} and ${atPosition}`;
  return visibleRows(context, rows, $);
}

/** Returns the function that plans reading the change at a position. It throws HttpError 404 if the position is not valid. */
export const changePlanOf =
  (context: OperationContext) =>
  (input: ChangeInput): ChangePlan => {
    const [, transaction, id] = positionPattern.exec(input.position) ?? [];
    if (transaction === undefined || id === undefined) throw errors.notFound();
    return { ...basePlan(input), id: recordId(context, input), position: [transaction, id] };
  };

/** A change with the states before and after it, as JSON text. */
export interface ChangeStates {
  readonly action: string;
  /** Names of the changed fields. */
  readonly changed: string;
  /**
   * Previous values of the changed fields: all values if the record was deleted. Null if the record did not exist or its
   * previous state is unknown.
   */
  readonly previous: string | null;
  /** The record after the change, or null if it was deleted. */
  readonly after: string | null;
}

/** The operation that reads one change for an event. */
export interface ChangeStatesOperation {
  readonly plan: (input: ChangeInput) => ChangePlan;
  readonly statement: (plan: ChangePlan) => Statement;
  /** Returns undefined if the caller cannot see the change or the change log no longer contains it. */
  readonly result: (rows: TextRows) => ChangeStates | undefined;
}

const decodeStates = rowDecoder({
  action: cell.text,
  changed: cell.text,
  previous: cell.nullableText,
  after: cell.nullableText,
});

/** Compiles the operation that reads one change for an event. */
export function compileChangeStates(context: OperationContext): ChangeStatesOperation {
  const { bind } = prepare<ChangePlan>(statementName(context, 'states'), 'deep', ($) =>
    selectChangeStates({ rows: rowsAtPosition(context, $), fields: loggedFieldsSql(context.definition) }),
  );
  return {
    plan: changePlanOf(context),
    statement: bind,
    result: ([row]) => row && decodeStates(row),
  };
}

/** Returns the cursor, or undefined if it is absent. @throws HttpError 400 if it is malformed */
function cursorOf({ query = {} }: OperationInput): UnverifiedCursor | undefined {
  if (query.cursor === undefined) return undefined;
  const cursor = typeof query.cursor === 'string' ? parseCursor(query.cursor) : undefined;
  if (cursor === undefined) rejectRequest([foreignCursorIssue()]);
  return cursor;
}
