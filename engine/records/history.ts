import { errors } from '../errors.ts';
import {
  encodeCursor,
  foreignCursorIssue,
  pageSize,
  parseCursor,
  positionText,
  type UnverifiedCursor,
} from '../query/index.ts';
import { arrayText, literal, prepare, record } from '../sql/index.ts';
import { changesSchema, loggedFieldNames, selectChanges } from './changes.ts';
import type { LinkContext, Operation, OperationPlan, OperationRequest } from './operation.ts';
import { commonParameters, planRequest, recordId, rejectRequest, unknownParameters } from './requests.ts';
import { organizationOf } from './rows.ts';
import { type ById, byIdSql, tableOf } from './statements.ts';

/** GET of a record's changes. */
export interface HistoryPlan extends OperationPlan, ById {
  /** Where the page begins; undefined for the newest change. */
  readonly after: UnverifiedCursor | undefined;
  readonly links?: LinkContext | undefined;
}

/** `GET /R/{id}/history`: the changes of a record, newest first, also of one that is gone. */
export const history: Operation<HistoryPlan> = {
  method: 'GET',
  path: '/:id/history',
  action: 'read',
  status: 200,
  compile: (context) => {
    const { definition } = context;
    const { name } = definition;
    /** What a cursor belongs to. */
    const signed = ({ organization, id }: HistoryPlan, place: string) =>
      JSON.stringify([organization, name, 'history', id, place]);
    const { bind } = prepare<HistoryPlan>(`${name}_history`, 'deep', ($) => {
      const ofRecord = `_l."organization_id" = ${organizationOf($)} and _l."object" = ${literal(name)} and _l."object_id" = ${$(({ id }) => id)}::bigint`;
      const before = `_l."version" < coalesce(${$(({ after }) => after?.id ?? null)}::bigint, 9223372036854775807)`;
      const rows = `select * from "crm_ledger" _l where ${ofRecord} and ${before} order by _l."version" desc limit ${pageSize}`;
      const fields = `${literal(arrayText(loggedFieldNames(definition)))}::text[]`;
      const changes = selectChanges(rows, fields, 'l."version" desc', ', l."version"::text');
      // A row of nulls: the record is there, and none of its changes.
      return `with _changes as (${changes}) select * from _changes union all select null, null from ${tableOf(context)} ${record} where ${byIdSql($)} and not exists (select from _changes)`;
    });
    return {
      plan: (request) => {
        rejectRequest(unknownParameters(request, [...commonParameters, 'cursor']));
        const plan = { ...planRequest(request), id: recordId(context, request), links: request.links };
        const after = placeOf(request);
        const isOurs =
          after === undefined ||
          request.links?.signing.verify(signed({ ...plan, after }, after.text), after.signature);
        if (isOurs !== true) rejectRequest([foreignCursorIssue()]);
        return { ...plan, after };
      },
      statement: bind,
      readsOnly: true,
      respond: (plan, rows) => {
        const { links, id, after } = plan;
        if (rows.length === 0 && after === undefined) throw errors.noRecord(definition.singular);
        const changes = rows.filter(([change]) => change !== null);
        const last = changes.length === pageSize ? changes.at(-1)?.[1] : undefined;
        const body = `{"data":[${changes.map(([change]) => change).join(',')}]}`;
        if (links === undefined || last === undefined) return { body };
        const text = positionText({ page: '1', key: null, id: String(last) });
        const cursor = encodeCursor(text, links.signing.sign(signed(plan, text)));
        return { body, headers: { link: `<${links.url()}/${id}/history?cursor=${cursor}>; rel="next"` } };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `get${recordName}History`,
    summary: `List the changes of ${aRecord}`,
    parameters: [{ $ref: '#/components/parameters/cursor' }],
    success: {
      description: 'Up to 20 changes, newest first. The record itself may be gone.',
      schema: changesSchema,
      headers: {
        Link: {
          description: 'Older changes (`rel="next"`), if there may be any.',
          schema: { type: 'string' },
        },
      },
    },
  }),
};

/** The place that a request names. @throws HttpError 400 if it is malformed */
function placeOf({ query }: OperationRequest): UnverifiedCursor | undefined {
  if (query.cursor === undefined) return undefined;
  const place = typeof query.cursor === 'string' ? parseCursor(query.cursor) : undefined;
  if (place === undefined) rejectRequest([foreignCursorIssue()]);
  return place;
}
