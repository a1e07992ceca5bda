// Name uses: which API keys named which resources and fields, for maintainers who take one away.
// May import engine, last-used, api-keys.

export { usageModule } from './module.ts';
export { findUsage, type KeyUsage } from './usage.ts';
