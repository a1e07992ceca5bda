// Tracing: sends traces of requests and their statements to an OpenTelemetry collector.
// May import engine.

import type { Module } from '../../../engine/modules/index.ts';
import { type TracingConfig, tracingVariables } from './variables.ts';

export { tracingVariables } from './variables.ts';

/** Services required for tracing. */
interface TracingServices {
  readonly config: TracingConfig;
  /** Versions of the service and its components. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Traces requests and their statements. */
export const tracingModule: Module<TracingServices> = {
  name: 'tracing',
  variables: tracingVariables,
  register: async (app, { config, versions }) => {
    const { otelDisabled, otelTracesExporter, otlpEndpoint, otlpTracesEndpoint } = config;
    const isNamed = (otlpTracesEndpoint ?? otlpEndpoint) !== undefined;
    if (otelDisabled || otelTracesExporter === 'none' || (otelTracesExporter === undefined && !isNamed))
      return;
    // Loaded only if tracing is enabled, to save memory.
    const { traceRequests } = await import('./spans.ts');
    traceRequests(app, config, versions.version ?? '');
  },
};
