// Quotas of organizations, as configured in config.yaml.
// May import engine, screens.

export { quotasModule } from './module.ts';
export { type QuotaSettings, quotaLine, quotaOf } from './quota.ts';
