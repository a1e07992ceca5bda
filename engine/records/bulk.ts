import { errors, formatCount } from '../errors.ts';
import type { JsonSchema } from '../fields/index.ts';
import {
  conditionParameters,
  confirmParameter,
  cursorParts,
  describeConditions,
  encodeCursor,
  type ParsedQuery,
  parameterIssue,
  parseConditions,
  type Query,
  queryClauses,
} from '../query/index.ts';
import { cell, type Placeholder, record, rowDecoder, type Statement } from '../sql/index.ts';
import { allows } from './access.ts';
import { type BatchPlan, maxItems, prepareBatch } from './batch.ts';
import type { Body } from './body.ts';
import { exactId } from './child-plan.ts';
import { execute } from './execute.ts';
import type { TransactionExecutor } from './executor.ts';
import { withHooks } from './hooks.ts';
import { callerSql } from './link-tables.ts';
import { compileListParameters } from './list-parameters.ts';
import { conditionKey } from './list-scope.ts';
import type {
  BodyInput,
  CompiledOperation,
  DescribedResource,
  ListInput,
  Operation,
  OperationContext,
  OperationDescription,
  OperationInput,
  OperationPlan,
  TextSigner,
  TransactionSteps,
} from './operation.ts';
import { patchBatch, patchRules } from './patch.ts';
import { mergePatchTypes } from './read-body.ts';
import { compileRemoveMany } from './remove.ts';
import { basePlan, commonParameters, rejectRequest, validBody } from './requests.ts';
import type { BatchResult, BulkResult } from './results.ts';
import { organizationOf, visibleLimitSql, visibleSql } from './rows.ts';
import { tableOf } from './statements.ts';
import { violations } from './violations.ts';

/** Maximum number of records that a bulk change writes. */
export const maxBulk = 10_000;

/** Maximum size, in bytes, of the body of a bulk change: its share of a batch's body, because every record is sent with it. */
export const maxBulkBytes = 8 * 1024;

/** Period for which a confirmation is valid, in minutes. */
const validMinutes = 5;

/** The input of a bulk change. */
type BulkInput = ListInput &
  BodyInput & {
    /** Whether a request without filters applies to all records. Default: such a request is rejected. */
    readonly acceptsAll?: boolean;
  };

/** The plan for a bulk change. */
export interface BulkPlan extends OperationPlan, Pick<OperationInput, 'customFields'> {
  readonly parsedQuery: ParsedQuery;
  /** The changes; empty for a delete. */
  readonly body: Body;
  /** The text that identifies the caller and the request, which a confirmation's signature covers. */
  readonly request: string;
  readonly signing: TextSigner | undefined;
  /** The number of records that the caller confirmed; undefined if the records are only counted. */
  readonly confirmed: number | undefined;
}

/** What a bulk change does with the records that match. */
interface BulkChange {
  readonly action: 'update' | 'delete';
  /** Returns the validated body. @throws HttpError 400 with all issues */
  readonly bodyOf: (input: BulkInput) => Body;
  /** Writes records, in batches. @throws HttpError 400 naming the records that cannot be written */
  readonly write: (executor: TransactionExecutor, plan: BulkPlan, ids: readonly string[]) => Promise<void>;
}

type CompiledBulk = CompiledOperation<BulkPlan, BulkInput, BulkResult>;

/** `PATCH /R?<filters>` with `Prefer: bulk`: changes the same fields of all records that match filters. */
export const bulkPatch: Operation<BulkPlan, BulkInput, BulkResult> = {
  method: 'PATCH',
  path: '',
  preference: 'bulk',
  action: 'update',
  status: 200,
  isBatch: true,
  sampleBody: {},
  body: { types: mergePatchTypes, maxBytes: maxBulkBytes },
  compile: (context) => {
    const { definition } = context;
    const rules = patchRules(context);
    const operation = withHooks(context, 'patchBatch', (own) => ({
      violation: violations(own),
      ...patchBatch.compile(own),
    }));
    return compileBulk(context, 'PATCH', {
      action: 'update',
      bodyOf: (input) => {
        // The parameters have already been checked.
        validBody(rules, Object.create(input, { query: { value: {} } }) as BulkInput, definition, 'update');
        return input.body;
      },
      write: async (executor, { caller, customFields, body }, ids) => {
        for (let start = 0; start < ids.length; start += maxItems) {
          const chunk = ids.slice(start, start + maxItems);
          const records = chunk.map((id) => ({ ...body, id: exactId(id) }));
          const input = { caller, customFields, body: { records } };
          await writeAll(executor, operation, await operation.plan(input), chunk);
        }
      },
    });
  },
  describe: (resource) =>
    describeBulk(resource, {
      operationId: `bulkPatch${resource.pluralName}`,
      summary: `Change fields of all ${wordsOf(resource)} that match filters`,
      body: {
        description: `The fields to change, at most ${maxBulkBytes / 1024} KiB (JSON merge patch, RFC 7396).`,
        schema: `${resource.recordName}Patch`,
      },
    }),
};

/** `DELETE /R?<filters>` with `Prefer: bulk`: deletes all records that match filters, or moves them to the trash. */
export const bulkRemove: Operation<BulkPlan, BulkInput, BulkResult> = {
  method: 'DELETE',
  path: '',
  preference: 'bulk',
  action: 'delete',
  status: 200,
  isBatch: true,
  compile: (context) => {
    // A single batch, because records that refer to each other can only be deleted together.
    const operation = withHooks(context, 'removeBatch', (own) => ({
      violation: violations(own),
      ...compileRemoveMany(own, maxBulk),
    }));
    return compileBulk(context, 'DELETE', {
      action: 'delete',
      bodyOf: () => ({}),
      write: async (executor, { caller, customFields }, ids) => {
        const plan = await operation.plan({ caller, customFields, body: { ids: ids.map(exactId) } });
        await writeAll(executor, operation, plan, ids);
      },
    });
  },
  describe: (resource) =>
    describeBulk(resource, {
      operationId: `bulkDelete${resource.pluralName}`,
      summary: `Delete all ${wordsOf(resource)} that match filters`,
    }),
};

const wordsOf = ({ definition }: DescribedResource): string => definition.name.replaceAll('_', ' ');

const confirmDescription: JsonSchema = {
  name: confirmParameter,
  in: 'query',
  description: 'The value of `confirm` in the response to the same request without this parameter.',
  schema: { type: 'string' },
};

const describeBulk = (
  { definition }: DescribedResource,
  description: Pick<OperationDescription, 'operationId' | 'summary' | 'body'>,
): OperationDescription => ({
  ...description,
  note: `Without \`confirm\`, the request only counts the records and returns \`confirm\`, which is valid for ${validMinutes} minutes for the same caller, filters and body. With \`confirm\`, all of them are written in one transaction, or none. At most ${formatCount(maxBulk)} records. Unknown and empty parameters and unknown fields are rejected, and at least one filter is required. Also requires the \`list\` grant.`,
  parameters: [...describeConditions(definition), confirmDescription],
  success: {
    description: 'The number of records that match or, with `confirm`, were written.',
    schema: 'BulkResult',
  },
});

/** Runs a batch in which all items must succeed. Errors name the records by their IDs. */
async function writeAll<P extends BatchPlan>(
  executor: TransactionExecutor,
  operation: CompiledOperation<P, BodyInput, BatchResult, Promise<P>>,
  plan: P,
  ids: readonly string[],
): Promise<void> {
  const located = { ...plan, location: (number: number) => `record ${ids[number - 1]}` };
  operation.result(located, await execute(executor, operation, located));
}

const decodeCount = rowDecoder({ count: cell.count });
const decodeId = rowDecoder({ id: cell.text });

/** The plan for the statements of a bulk change. */
type MatchingPlan = OperationPlan & Pick<BulkPlan, 'parsedQuery'>;

/**
 * Compiles the statements that find the records that match filters and that the caller can both list and write. They are
 * unnamed, because they are planned for their values.
 */
export function bulkStatements(context: OperationContext, action: BulkChange['action']) {
  const limit = maxBulk + 1;
  const lockMode = action === 'delete' ? 'update' : 'no key update';
  const matching = ({ parsedQuery }: MatchingPlan, $: Placeholder<MatchingPlan>): string => {
    organizationOf($);
    const { where = [] } = queryClauses(context.definition, parsedQuery, $, callerSql(context, $));
    const visible = `${visibleSql(context, 'list', $)}${visibleLimitSql(context, action, $)}`;
    return `from ${tableOf(context)} ${record} where ${[visible, ...where].join(' and ')}`;
  };
  return {
    /** Counts the records, up to the limit. */
    count: (plan: MatchingPlan) =>
      prepareBatch<MatchingPlan>(
        ($) => `select count(*)::text from (select ${matching(plan, $)} limit ${limit}) _c`,
      ).bind(plan),
    /** Locks the records and returns their IDs. */
    lock: (plan: MatchingPlan) =>
      prepareBatch<MatchingPlan>(
        ($) =>
          `select ${record}."id"::text ${matching(plan, $)} order by ${record}."id" limit ${limit} for ${lockMode} of ${record}`,
      ).bind(plan),
  };
}

/** Compiles a bulk change. @param method part of the request that a confirmation is valid for */
function compileBulk(context: OperationContext, method: string, change: BulkChange): CompiledBulk {
  const { definition, stored, view } = context;
  const { action, bodyOf, write } = change;
  const knownParameters = [...commonParameters, ...conditionParameters(definition), confirmParameter];
  const readParameters = compileListParameters(definition, knownParameters);
  const statements = bulkStatements(context, action);
  return {
    plan: (input) => {
      const { caller, query = {}, signing, customFields } = input;
      if (!allows(caller.principal.grants, stored, 'list')) throw errors.forbidden(stored.name, 'list');
      // Ignoring a mistyped filter would select more records, and ignoring a mistyped field would change nothing.
      const strictInput = Object.create(input, {
        strict: { value: true },
        body: { get: () => input.body },
      }) as BulkInput;
      const { declarations, query: parameters, issues } = readParameters(strictInput);
      issues.push(...emptyParameters(query));
      const parsedQuery = parseConditions(
        declarations,
        parameters,
        issues,
        input.caller.principal.phoneRegion,
      );
      rejectRequest(issues);
      const { filters, search } = parsedQuery;
      if (input.acceptsAll !== true && filters.length === 0 && search.length === 0)
        throw errors.filterRequired();
      const body = bodyOf(strictInput);
      const { kind, actor, organization } = caller.principal;
      const request = JSON.stringify([
        'bulk',
        method,
        organization,
        [kind, actor],
        stored.name,
        view,
        conditionKey(parsedQuery),
        body,
      ]);
      const plan = { ...basePlan(input), parsedQuery, body, request, signing, customFields };
      return { ...plan, confirmed: confirmedCount(plan, query) };
    },
    statement: statements.count,
    transaction: (plan) =>
      plan.confirmed === undefined ? undefined : writeMatching(plan, statements.lock(plan), write),
    result: (plan, [row = []]) => {
      const { count } = decodeCount(row);
      if (plan.confirmed !== undefined) return { kind: 'bulk', count, confirm: undefined };
      if (count > maxBulk) throw errors.bulkTooLarge(maxBulk);
      return { kind: 'bulk', count, confirm: confirmation(plan, count) };
    },
  };
}

/** Returns the steps that lock the records that match and write them. They fail with 409 if their number is not the confirmed one. */
const writeMatching = (
  plan: BulkPlan,
  lockStatement: Statement,
  write: BulkChange['write'],
): TransactionSteps => ({
  lane: 'batch',
  creates: 0,
  run: async (executor) => {
    const ids = (await executor.run(lockStatement)).map((row) => decodeId(row).id);
    if (ids.length !== plan.confirmed) throw errors.countChanged();
    if (ids.length > 0) await write(executor, plan, ids);
    return [[String(ids.length)]];
  },
});

/** Returns an issue for each parameter with an empty value. Lists ignore them, because forms submit blank inputs. */
const emptyParameters = (query: Query) =>
  Object.entries(query)
    .filter(([name, value]) => !commonParameters.includes(name) && isBlank(value))
    .map(([name]) => parameterIssue(name, 'must not be empty'));

const isBlank = (value: Query[string]): boolean =>
  value !== undefined && [value].flat().some((text) => text.trim() === '');

type SignedPlan = Pick<BulkPlan, 'request' | 'signing'>;

/** Returns the confirmation of a plan: the number of records and the time at which it expires, both signed. */
export function confirmation(
  { request, signing }: SignedPlan,
  count: number,
  now = Date.now(),
): string | undefined {
  if (signing === undefined) return undefined;
  const text = Buffer.from(JSON.stringify([count, now + validMinutes * 60_000])).toString('base64url');
  return encodeCursor(text, signing.sign(`${request}${text}`));
}

/**
 * Returns the confirmed number of records, or undefined if the request does not contain a confirmation.
 * @throws HttpError 400 if the confirmation is not valid for this request, or has expired
 */
function confirmedCount({ request, signing }: SignedPlan, query: Query): number | undefined {
  const value = query[confirmParameter];
  if (value === undefined) return undefined;
  const parts = typeof value === 'string' ? cursorParts(value) : undefined;
  const isSigned =
    parts !== undefined && signing?.verify(`${request}${parts.text}`, parts.signature) === true;
  if (isSigned) {
    const [count, expires] = JSON.parse(Buffer.from(parts.text, 'base64url').toString()) as [number, number];
    if (Date.now() < expires) return count;
  }
  const message = 'has expired, or was not issued for this caller, these filters and this body';
  const hint = 'Send the request without it to get a new one';
  throw errors.invalidFields([parameterIssue(confirmParameter, message, hint)]);
}
