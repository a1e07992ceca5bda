// Inbound leads: leads created by ad, newsletter and form tools.
// May import engine, plugins, endpoint.

export { inboundLeadsModule, inboundLeadsPath } from './inbound-leads.ts';
