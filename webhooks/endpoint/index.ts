// Endpoint: shared parts of the partner endpoints, for example secrets, request bodies and access to records.
// May import engine, plugins, settings.

export { stringFields } from './body.ts';
export { sealedCheck } from './check.ts';
export { failure, requestOf, secretScheme, success } from './description.ts';
export { indexable } from './event-id.ts';
export { convertLead, findLead, type LeadTraits } from './leads.ts';
export { fetchJson, UnreachableError } from './outbound.ts';
export { ownProperty } from './own-property.ts';
export { creatingPartnerRecords, type Partner, partnerRecords } from './records.ts';
export { fingerprint, secretUses } from './secret-use.ts';
export { matchesAnySecret, signatures, signedWith } from './secrets.ts';
export { endpoint, type WebhookServices, type Webhooks } from './webhooks.ts';
