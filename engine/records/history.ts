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
} from '../sql/index.ts';
import type {
  CompiledOperation,
  HistoryInput,
  Operation,
  OperationContext,
  OperationInput,
  OperationPlan,
  TextSigner,
} from './operation.ts';
import { isLogged } from './projection.ts';
import { basePlan, commonParameters, recordId, rejectRequest, unknownParameters } from './requests.ts';
import type { HistoryResult } from './results.ts';
import { organizationOf } from './rows.ts';
import { type ById, byIdSql, statementName, tableOf } from './statements.ts';

/** Schema names for a change and a list of changes in the OpenAPI document. */
export const changeSchema = 'Change';
const changesSchema = 'Changes';

/**
 * Returns the names of the fields included in changes. Sensitive fields are excluded even if they were logged
 * before they became sensitive.
 */
export const loggedFieldNames = ({ fields }: Pick<ResourceDefinition, 'fields'>): string[] =>
  fields.filter(isLogged).map(({ name }) => name);

/**
 * Returns an SQL condition that is true if row `p` of the change log contains the previous version of the
 * record in row `l`, and row `l` does not also contain that version.
 */
export const hasPreviousVersionSql = (p: string, l: string): string =>
  `${p}."organization_id" = ${l}."organization_id" and ${p}."object" = ${l}."object" and ${p}."object_id" = ${l}."object_id" and ${p}."version" = ${l}."version" - 1 and ${l}."before" is null and ${l}."action" = 'update'`;

/**
 * SQL expression for the names of changed fields, as a JSON array in text form. The array contains all fields
 * if the record was created or deleted. For updates, it omits fields that were not defined in both versions.
 */
const changedNames = `(select '[' || coalesce(string_agg(to_json(_n.key)::text, ',' order by _n.place), '') || ']' from json_each(coalesce(_s."after", _s."before")) with ordinality _n(key, value, place) left join json_each(case when l."action" = 'update' then _s."before" end) _o on _o.key = _n.key where _n.key = any(_s."fields") and _o.value::text is distinct from _n.value::text and (_o.key is not null) = (l."action" = 'update'))`;

/**
 * Returns the FROM clause that joins rows `l` of the change log to `_s`, the record before and after the
 * change.
 * @param fence `offset 0` if long values must be parsed only once
 */
const withBefore = (rows: string, fields: string, fence = ''): string =>
  `from (${rows}) l left join "crm_ledger" p on ${hasPreviousVersionSql('p', 'l')} cross join lateral (select ${fields} as "fields", l."record"::json as "after", coalesce(l."before", p."record")::json as "before"${fence}) _s`;

/**
 * Returns the statement that selects columns from change log rows, and the names of changed fields as
 * `changed`.
 * @param rows see {@link selectChanges}
 * @param fields see {@link selectChanges}
 */
export const selectChangedNames = (rows: string, fields: string, columns: string): string =>
  `select ${columns}, ${changedNames} as "changed" ${withBefore(rows, fields)}`;

/**
 * Returns the statement that selects changes as JSON, each with the record before and after the change.
 * @param rows selects rows of the change log
 * @param fields SQL expression for an array of the field names to include, which can refer to row `l`
 * @param order ORDER BY expressions for rows `l`
 * @param extraColumns additional columns, each starting with a comma
 * @param excerpt maximum length of text values, in characters; unlimited if undefined
 */
export const selectChanges = (
  rows: string,
  fields: string,
  order: string,
  extraColumns = '',
  excerpt?: number,
): string => {
  // Cast to text, because JSON functions would reformat the stored values, for example exact numbers.
  const value =
    excerpt === undefined
      ? '_f.value::text'
      : `case when json_typeof(_f.value) = 'string' and length(_f.value::text) > ${excerpt} then to_json(left(_f.value #>> '{}', ${excerpt}))::text else _f.value::text end`;
  const fieldsJson = (json: string) =>
    `(select '{' || string_agg(to_json(_f.key)::text || ':' || ${value}, ',') || '}' from json_each(${json}) _f where _f.key = any(_s."fields"))::json`;
  const values = {
    position: `l."transaction"::text || '-' || l."id"::text`,
    at: `replace((l."at" at time zone 'UTC')::text, ' ', 'T') || 'Z'`,
    actor: `(select row_to_json(_a) from (select l."actor_kind" as "kind", l."actor_id" as "id", l."actor_name" as "name") _a)`,
    request_id: 'l."request_id"',
    resource: 'l."object"',
    id: 'l."object_id"',
    action: 'l."action"',
    version: 'l."version"',
    changed: `${changedNames}::json`,
    before: fieldsJson('_s."before"'),
    after: fieldsJson('_s."after"'),
  };
  const columns = Object.entries(values).map(([name, value]) => `${value} as "${name}"`);
  return [
    `select row_to_json(_e)::text${extraColumns} ${withBefore(rows, fields, excerpt === undefined ? '' : ' offset 0')}`,
    `cross join lateral (select ${columns.join(', ')}) _e order by ${order}`,
  ].join(' ');
};

const int64 = { type: 'integer', format: 'int64' };
const nullable = (type: string) => ({ type: [type, 'null'] });
const recordSchema = (description: string): JsonSchema => ({
  type: ['object', 'null'],
  description,
  additionalProperties: true,
});

/** OpenAPI schemas for changes. */
export const changeSchemas: Readonly<Record<string, JsonSchema>> = {
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
        description: 'The key or user that made the change, with its name or email address at that time.',
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
      action: { type: 'string', description: '`create`, `update` or `delete`.' },
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
};

/** The plan for a page of a record's history. */
interface HistoryPlan extends OperationPlan, ById {
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
    /** Returns the text covered by a cursor's signature: the history and the position in it. */
    const signedText = ({ organization, id }: HistoryPlan, position: string) =>
      JSON.stringify([organization, name, 'history', id, position]);
    const { excerpt } = context;
    const kinds = rowKinds({
      change: { json: cell.text, version: cell.text, ...(excerpt !== undefined && { hasMore: cell.flag }) },
      /** The record exists but has no changes. */
      unchanged: {},
    });
    const { bind } = prepare<HistoryPlan>(statementName(context, 'history'), 'deep', ($) => {
      const condition = changesOf(name, $);
      const olderThan = `_l."version" < coalesce(${$(({ after }) => after?.id ?? null)}::bigint, 9223372036854775807)`;
      const page = `select * from "crm_ledger" _l where ${condition} and ${olderThan} order by _l."version" desc limit ${pageSize}`;
      const rows = excerpt === undefined ? page : upToBytes(page);
      // A page of excerpts can end before it is full, so the statement returns whether older changes exist.
      const hasMoreColumn = excerpt === undefined ? '' : `, (l."_place" < l."_count")::text`;
      const fields = loggedFieldsSql(definition);
      const changes = selectChanges(
        rows,
        fields,
        'l."version" desc',
        `, l."version"::text${hasMoreColumn}`,
        excerpt,
      );
      return `with _changes as (${changes}) select ${kinds.select('change', '*')} from _changes union all select ${kinds.select('unchanged')} from ${tableOf(context)} ${record} where ${byIdSql($)} and not exists (select from _changes)`;
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
      readsOnly: true,
      result: (plan, rows) => {
        const { signing } = plan;
        if (rows.length === 0 && plan.after === undefined) throw errors.recordNotFound(definition.singular);
        const pageRows = rows.map(kinds.decode).filter((row) => row.kind === 'change');
        const changes = pageRows.map(({ json }) => json);
        const last = pageRows.at(-1);
        const hasMore = pageRows.length === pageSize || last?.hasMore === true;
        if (signing === undefined || last === undefined || !hasMore)
          return { kind: 'history', changes, next: undefined };
        const text = positionText({ page: '1', key: null, id: last.version });
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

/** Returns an SQL expression for an array of logged field names. */
const loggedFieldsSql = (definition: OperationContext['definition']): string =>
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
interface ChangePlan extends OperationPlan, ById {
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
  const { bind } = prepare<ChangePlan>(statementName(context, 'change'), 'deep', ($) => {
    const atPosition = `_l."transaction" = ${$(({ position }) => position[0])}::xid8 and _l."id" = ${$(({ position }) => position[1])}::bigint`;
    const rows = `select * from "crm_ledger" _l where ${changesOf(definition.name, $)} and ${atPosition}`;
    return selectChanges(rows, loggedFieldsSql(definition), 'l."version" desc');
  });
  return {
    plan: (input) => {
      const [, transaction, id] = positionPattern.exec(input.position) ?? [];
      if (transaction === undefined || id === undefined) throw errors.notFound();
      return { ...basePlan(input), id: recordId(context, input), position: [transaction, id] };
    },
    statement: bind,
    readsOnly: true,
    result: (_plan, [row]) => {
      if (row === undefined) throw errors.notFound();
      return { kind: 'history', changes: [decodeChange(row).json], next: undefined };
    },
  };
}

/** Returns the cursor, or undefined if it is absent. @throws HttpError 400 if it is malformed */
function cursorOf({ query = {} }: OperationInput): UnverifiedCursor | undefined {
  if (query.cursor === undefined) return undefined;
  const cursor = typeof query.cursor === 'string' ? parseCursor(query.cursor) : undefined;
  if (cursor === undefined) rejectRequest([foreignCursorIssue()]);
  return cursor;
}
