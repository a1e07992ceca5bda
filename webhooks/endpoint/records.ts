import {
  type Body,
  type Caller,
  changingRecords,
  creatingRecords,
  type ExistingRecords,
  noGrants,
  type Records,
  type RecordsWork,
  runOperation,
} from '../../engine/records/index.ts';
import type { WebhookServices } from './webhooks.ts';

/** A partner as the author of changes. */
export interface Partner {
  /** The organization's ID. */
  readonly organization: string;
  readonly requestId: string;
  /** The name recorded in the change log. */
  readonly name: string;
}

const callerOf = ({ organization, requestId, name }: Partner): Caller => ({
  principal: { kind: 'partner', actor: null, name, organization, user: null, grants: noGrants },
  requestId,
});

/** The services with which partners write records. */
type RecordServices = Pick<WebhookServices, 'database' | 'resources'>;

/** Runs a function that changes existing records on behalf of a partner, in a transaction with the hooks of the resources. */
export const changingPartnerRecords = <T>(
  { database, resources }: RecordServices,
  partner: Partner,
  work: RecordsWork<T, ExistingRecords>,
): Promise<T> => changingRecords(database, resources, callerOf(partner), work);

/**
 * Runs a function that can create a record on behalf of a partner, in a transaction with the hooks of the resources.
 * @throws HttpError 403 if the organization has reached its maximum number of records
 */
export const creatingPartnerRecords = <T>(
  { database, resources }: RecordServices,
  partner: Partner,
  work: RecordsWork<T, Records>,
): Promise<T> => creatingRecords(database, resources, callerOf(partner), work);

/**
 * Creates a record on behalf of a partner as POST does, in a transaction of its own, and runs the hooks of the resource.
 * @returns the record's ID
 * @throws HttpError in the same cases as POST
 */
export async function createPartnerRecord(
  { database, resources }: RecordServices,
  partner: Partner,
  name: string,
  body: Body,
): Promise<string> {
  const resource = resources.find((candidate) => candidate.name === name);
  if (resource === undefined) throw new Error(`this instance does not declare ${name}`);
  const { id } = await runOperation(database, resource.operations.create, {
    caller: callerOf(partner),
    body,
  });
  return id;
}
