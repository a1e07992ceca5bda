// Usage: records which API keys use which resources and fields, for maintainers who want to remove a resource or field.
// May import engine, last-used, api-keys.

export { usageModule } from './module.ts';
export { findUsage, type KeyUsage } from './usage.ts';
