// Endpoint: code shared by the partner endpoints, for example secrets, request bodies and record access.
// May import engine, plugins, settings.

export { indexable, ownProperty, stringFields } from './body.ts';
export { sealedCheck } from './check.ts';
export { contactKey, contactKind, contactReaders, findMessages } from './contacts.ts';
export { failure, requestOf, secretScheme, success, writeFailure } from './description.ts';
export { convertedStatus, convertLead, findLead, type LeadTraits } from './leads.ts';
export { fetchJson, UnreachableError } from './outbound.ts';
export {
  changingPartnerRecords,
  createPartnerRecord,
  creatingPartnerRecords,
  type Partner,
} from './records.ts';
export { matchesAnySecret, signatures, signedWith } from './secrets.ts';
export { endpoint, fingerprint, secretUses, type WebhookServices, type Webhooks } from './webhooks.ts';
