// inbound-leads:
// May import

export { inboundLeadsModule, inboundLeadsPath } from './inbound-leads.ts';
