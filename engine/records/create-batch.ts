import type { ResourceDefinition, Unique } from '../definition/index.ts';
import { errors, type FieldIssue, type HttpError } from '../errors.ts';
import type { Field } from '../fields/index.ts';
import type { Placeholder, Prepared } from '../sql/index.ts';
import { allows } from './access.ts';
import { assignIf, assignmentsOf } from './assignments.ts';
import {
  type BatchPlan,
  batchBytes,
  batchPlan,
  envelopeOf,
  objectOf,
  partsOf,
  withFailures,
} from './batch.ts';
import {
  isDeadlock,
  lockedItemsSql,
  prepareBatch,
  resultsSql,
  successSql,
  updateItems,
} from './batch-statements.ts';
import {
  type IdempotentPlan,
  idempotencyOf,
  idempotentResponse,
  idempotentStatement,
  lostRace,
} from './idempotency.ts';
import type { Operation, OperationContext } from './operation.ts';
import { createRejectionFinder, type RejectionFinder } from './rejections.ts';
import { rejectRequest } from './requests.ts';
import { organizationOf, visibleSql } from './rows.ts';
import { effectsOf, tableOf } from './statements.ts';
import { isBlankValue, itemValues, namesOf, sameKeySql, uniqueKeyText } from './uniques.ts';

/** The plan of a POST that creates or updates many records. */
export interface CreateBatchPlan extends BatchPlan, IdempotentPlan {
  readonly caller: IdempotentPlan['caller'];
  /** The unique fields that existing records are matched by; empty if all records are new. */
  readonly match: string;
}

/** `POST /R/batch`: creates up to 1,000 records, or with `match` creates and updates records, in one statement. */
export const createBatch: Operation<CreateBatchPlan, Promise<CreateBatchPlan>> = {
  method: 'POST',
  path: '/batch',
  action: 'create',
  status: 200,
  bodyLimit: batchBytes,
  compile: (context) => {
    const { definition, body: rules, items: table } = context;
    const ways = new Map(
      [undefined, ...definition.uniques].map((match) => [wayName(match), wayOf(context, match)]),
    );
    const way = ({ match }: Pick<CreateBatchPlan, 'match'>): Way => {
      const found = ways.get(match);
      if (found === undefined) throw matchError(definition);
      return found;
    };
    return {
      plan: async (request) => {
        const envelope = envelopeOf(request, 'records', true);
        const wanted = { match: wayName(envelope.match?.map((name) => ({ name }))) };
        const { match } = way(wanted);
        const { grants } = request.caller.principal;
        if (match !== undefined && !allows(grants, definition.name, 'update')) {
          throw errors.forbidden(definition.name, 'update');
        }
        const idempotency = idempotencyOf(request);
        const planned = await batchPlan(request, envelope, {
          table,
          place: (number) => `records[${number - 1}]`,
          read: (value) => {
            const body = objectOf(value);
            rejectRequest([
              ...(request.strict ? rules.unexpected(body) : []),
              ...rules.validate(body),
              ...(match ?? []).filter((field) => isBlankValue(body, field)).map(matchNeeded),
            ]);
            return { id: null, body };
          },
          ...(match && {
            key: ({ body }) => uniqueKeyText(match, body),
            sameKey: errors.duplicateInBatch(namesOf(match)),
          }),
        });
        return { ...planned, ...wanted, caller: request.caller, idempotency };
      },
      statement: (plan) => {
        const { simple, once } = way(plan);
        return (plan.idempotency === undefined ? simple : once).bind(plan);
      },
      // With `match`, the number is unknown in advance.
      creates: ({ match, size, failures }) => (match === '' ? size - failures.size : 1),
      respond: (plan, rows) =>
        plan.idempotency === undefined ? { body: String(rows[0]?.[0]) } : idempotentResponse(plan, rows),
      retryable: (cause) => lostRace(cause) || isDeadlock(cause),
      parts: partsOf<CreateBatchPlan>((plan) => way(plan).simple.bind(plan)),
      refusal: {
        statement: (plan) => way(plan).refusals.statement?.bind(plan),
        remaining: (plan, rows) => withFailures(plan, way(plan).refusals.errors(plan, rows)),
      },
    };
  },
  describe: ({ recordName, pluralName, definition }) => ({
    operationId: `batchCreate${pluralName}`,
    summary: `Create or update many ${definition.name.replaceAll('_', ' ')}`,
    body: {
      description:
        'Up to 1,000 records, 8 MiB. With `match`, existing records with the same values in these fields are updated as by PATCH, which also requires the `update` grant.',
      schema: `${recordName}Batch`,
    },
    success: {
      description: 'The result of each record, in the order of the request.',
      schema: 'BatchResults',
    },
  }),
};

/** How records are written: all of them new, or those changed that have the same values of unique fields. */
interface Way {
  readonly match: Unique | undefined;
  readonly simple: Prepared<CreateBatchPlan>;
  /** For requests with an `Idempotency-Key`. */
  readonly once: Prepared<CreateBatchPlan>;
  readonly refusals: RejectionFinder;
}

/** Returns the name of a variant, independent of the order of its fields. */
const wayName = (match: readonly { readonly name: string }[] = []): string =>
  match
    .map(({ name }) => name)
    .sort()
    .join(' ');

const matchError = ({ uniques }: ResourceDefinition): HttpError =>
  errors.invalidParameter(
    'match',
    uniques.length === 0
      ? 'is not possible: no field is unique'
      : `must be one of ${uniques.map((unique) => JSON.stringify(namesOf(unique))).join(', ')}`,
  );

const matchNeeded = ({ name }: Field): FieldIssue => ({
  field: name,
  message: `${name} must not be empty because records are matched by it`,
});

function wayOf(context: OperationContext, match: Unique | undefined): Way {
  const { definition, items: table } = context;
  const { name } = definition;
  return {
    match,
    simple: prepareBatch(($) => {
      organizationOf($);
      return `with ${writeSql(context, match, $)} select ${resultsOf(match, $)}`;
    }),
    once: prepareBatch(($) => {
      organizationOf($);
      return idempotentStatement($, {
        path: `${name}/batch`,
        write: (source) => writeSql(context, match, $, source),
        result: `select ${resultsOf(match, $)} as "record", '' as "tag", '0' as "record_id" from _first`,
        mark: '',
      });
    }),
    refusals: createRejectionFinder(definition, table, match === undefined ? 'create' : { match }),
  };
}

/** The expressions that write: first what matches, then the others as new records. @param guard see {@link ItemTable} */
function writeSql(
  context: OperationContext,
  match: Unique | undefined,
  $: Placeholder<CreateBatchPlan>,
  guard?: string,
): string {
  const { definition, items: table } = context;
  const { fields } = definition;
  const inserted = assignmentsOf(fields, 'create', $, table.assigned);
  const columns = inserted.map((each) => each.column).join(', ');
  const values = inserted.map(({ value }) => value).join(', ');
  // In the order of the request, so that ids are. Where several requests may write the same keys, in their order, so that they do not wait for each other in a circle.
  const order = match === undefined ? [] : itemValues(table, match);
  const isNew = match === undefined ? '' : ' where not exists (select from _found _f where _f._n = _i._n)';
  return [
    table.expression($, guard),
    ...(match === undefined ? [] : [matched(context, match, $)]),
    `_new as materialized (select _i.*, row_number() over (order by ${[...order, '_i._n'].join(', ')}) as _rank from _items _i${isNew})`,
    // Ids ascend in the order of the rows.
    `_written as (insert into ${tableOf(context)} (${columns}) select ${values} from _new _i order by _i._rank returning *)${effectsOf(context, 'create', $)}`,
    '_ids as (select "id", row_number() over (order by "id") as _rank from _written)',
  ].join(', ');
}

/** The expressions that change the records that match. */
function matched(context: OperationContext, match: Unique, $: Placeholder<CreateBatchPlan>): string {
  const { definition, items: table } = context;
  const assigned = assignmentsOf(definition.fields, 'update', $, (field) =>
    assignIf(table.isGiven(field), table.assigned(field)),
  );
  const found = `${visibleSql($)} and ${sameKeySql(match, itemValues(table, match))}`;
  return `${lockedItemsSql(context, found)}, ${updateItems(context, assigned, $, '_changed')}`;
}

const resultsOf = (match: Unique | undefined, $: Placeholder<CreateBatchPlan>): string =>
  resultsSql($, [
    `select _i._n, ${successSql(201, '_w."id"')} from _new _i join _ids _w on _w._rank = _i._rank`,
    ...(match === undefined ? [] : [`select _f._n, ${successSql(200, '_f."id"')} from _found _f`]),
  ]);
