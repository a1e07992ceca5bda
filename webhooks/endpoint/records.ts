import { type RecordResource, type Records, records } from '../../engine/records/index.ts';
import { runForId, type Tables } from '../../engine/tables/index.ts';

/** A partner as the author of changes. */
export interface Partner {
  /** The organization's ID. */
  readonly organization: string;
  readonly requestId: string;
  /** The name recorded in the change log. */
  readonly name: string;
}

/** Returns an accessor for an organization's records that acts on behalf of a partner within a transaction. */
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
