// Quotas: enforces the organizations' quotas from config.yaml. May import engine, admin-ui/shell.

export { quotasModule } from './module.ts';
export { type QuotaSettings, quotaLine, quotaOf } from './quota.ts';
