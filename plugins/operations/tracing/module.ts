import type { Module } from '../../../engine/modules/index.ts';
import { type TracingConfig, tracingVariables } from './variables.ts';

/** What tracing needs of a running service. */
export interface TracingServices {
  readonly config: TracingConfig;
  /** The versions of the service. */
  readonly versions: Readonly<Record<string, string>>;
}

/** Traces of requests. */
export const tracingModule: Module<TracingServices> = {
  name: 'tracing',
  variables: tracingVariables,
  register: async (app, { config, versions }) => {
    const { otelDisabled, otelTracesExporter, otlpEndpoint, otlpTracesEndpoint } = config;
    const isNamed = (otlpTracesEndpoint ?? otlpEndpoint) !== undefined;
    if (otelDisabled || otelTracesExporter === 'none' || (otelTracesExporter === undefined && !isNamed))
      return;
    // Loaded where it is used: it would take memory.
    const { traceRequests } = await import('./spans.ts');
    traceRequests(app, config, versions.version ?? '');
  },
};
