// Monitoring: the admin port with /livez, /readyz and /metrics.
// May import engine.

export type { FamilyValues } from './families.ts';
export { operationsModule } from './module.ts';
export { countsOf, operations } from './operations.ts';
export { type ProcessReport, type ReadinessReport, readinessOf } from './readiness.ts';
export { operationsVariables } from './variables.ts';
