import { foreignKeyViolation, sqlState } from '../database/index.ts';
import { type Placeholder, quote, record } from '../sql/index.ts';
import { conditionsOf } from './conditions.ts';
import type { Operation, OperationContext } from './operation.ts';
import { commonParameters, planOf, recordId, refuse, unknownParameters } from './requests.ts';
import { foundRow } from './responses.ts';
import { type Scope, visible } from './rows.ts';
import { prepareById, tableOf, type WriteById } from './statements.ts';

/** `DELETE /R/{id}`: the record is gone; references to it are null. */
export const remove: Operation<WriteById> = {
  method: 'DELETE',
  path: '/:id',
  action: 'delete',
  status: 200,
  compile: (context) => {
    const table = tableOf(context);
    const statement = prepareById<WriteById>(context, 1, {
      name: `${context.definition.name}_delete`,
      action: 'delete',
      // A statement cannot both delete a record and change it, as when it refers to another one that is deleted.
      isAlone: context.referrers.some(({ resource }) => resource === context.definition.name),
      change: (_, source, condition) =>
        `delete from ${table} ${record}${source === undefined ? '' : ` using ${source}`} where ${condition} returning ${record}."organization_id", ${record}."id"`,
      further: ($, source) => unlinked(context, $, source !== undefined),
      result: (further = '', join = '') => `select 1${further} from _written ${record}${join}`,
    });
    return {
      plan: (request) => {
        refuse(unknownParameters(request, commonParameters));
        const conditions = conditionsOf(context, request);
        return { ...planOf(request), conditions, id: recordId(context, request) };
      },
      statement,
      // A reference that was written meanwhile; PostgreSQL makes it null by itself, Citus does not.
      retryable: (cause) => sqlState(cause) === foreignKeyViolation,
      respond: (_, rows) => {
        foundRow(context, rows);
        return { body: '{"ok":true}' };
      },
    };
  },
  describe: ({ aRecord, recordName }) => ({
    operationId: `delete${recordName}`,
    summary: `Delete ${aRecord}`,
    success: { description: 'The record is gone; references to it became null.', schema: 'Deleted' },
  }),
};

/**
 * Makes the references to the deleted record null. The foreign keys would do that too, but not on Citus, which has no
 * `on delete set null` for keys that include the organization.
 */
const unlinked = (
  { referrers }: OperationContext,
  placeholder: Placeholder<Scope>,
  isMany: boolean,
): string =>
  referrers
    .map(({ resource, field }, index) => {
      const referrer = `r${index}`;
      const sameOrganization = isMany
        ? `${referrer}."organization_id" = _written."organization_id"`
        : visible(placeholder, referrer);
      const refers = `${sameOrganization} and ${referrer}.${quote(field)} = _written."id"`;
      return `, _unlinked_${index} as (update ${quote(resource)} ${referrer} set ${quote(field)} = null from _written where ${refers})`;
    })
    .join('');
