// Tracing: traces of requests and their statements, sent to a collector as OpenTelemetry has it.
// May import engine.

export { tracingModule } from './module.ts';
export { tracingVariables } from './variables.ts';
