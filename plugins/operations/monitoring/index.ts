// Monitoring: the admin port with /livez, /readyz and /metrics.
// May import engine.

export { countsOf, createAdminServer } from './admin-server.ts';
export type { FamilyValues } from './families.ts';
export { operationsModule } from './module.ts';
export { type ProcessReport, type ReadinessReport, readinessOf } from './readiness.ts';
export { operationsVariables } from './variables.ts';
