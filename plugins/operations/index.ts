// Operations: the operators' port: /livez and /readyz.
// May import engine.

export { operations } from './operations.ts';
export { type ProcessReport, type ReadinessReport, readinessOf } from './readiness.ts';
