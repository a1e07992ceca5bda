// Tracing: traces of requests and their statements, sent to an OpenTelemetry collector.
// May import engine.

export { tracingModule } from './module.ts';
export { tracingVariables } from './variables.ts';
