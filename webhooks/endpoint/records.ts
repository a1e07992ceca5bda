import { type RecordResource, type Records, records } from '../../engine/records/index.ts';
import { runForId, type Tables } from '../../engine/tables/index.ts';

/** A partner as the author of records, for the ledger. */
export interface Partner {
  /** Id of the organization. */
  readonly organization: string;
  readonly requestId: string;
  /** What the ledger calls it. */
  readonly name: string;
}

/** Records as a partner works with them, in a transaction. */
export const partnerRecords = (
  tables: Tables,
  resources: readonly RecordResource[],
  { organization, requestId, name }: Partner,
): Records =>
  records(
    resources,
    { principal: { kind: 'partner', actor: null, name, organization, user: null, grants: {} }, requestId },
    (statement) => runForId(tables, statement),
  );
