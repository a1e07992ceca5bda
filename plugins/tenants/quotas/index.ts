// Quotas: how much each organization may have, as config.yaml says at the moment.
// May import engine, screens.

export { quotasModule } from './module.ts';
export { type QuotaSettings, quotaLine, quotaOf } from './quota.ts';
