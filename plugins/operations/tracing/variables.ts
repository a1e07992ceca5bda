import {
  choiceVariable,
  flagVariable,
  integerVariable,
  textVariable,
  type Variable,
  type VariableValues,
} from '../../../engine/config/index.ts';

const address = (name: string): Variable<string | undefined> => ({
  name,
  fallback: undefined,
  expected: 'an http or https address, such as http://127.0.0.1:4318',
  show: (value) => (value === undefined ? 'not set' : value.replace(/:\/\/[^/@\s]*@/, '://…@')),
  read: (given) => (/^https?:$/.test(URL.parse(given)?.protocol ?? '') ? given : undefined),
});

const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
/** Which requests are traced. */
export type SamplerName = (typeof samplers)[number];

const ratio: Variable<number> = {
  name: 'OTEL_TRACES_SAMPLER_ARG',
  fallback: 1,
  expected: 'a number from 0 to 1',
  read: (given) => (/^(?:0|1|[01]?\.\d+|1\.0)$/.test(given) && +given <= 1 ? +given : undefined),
};

/**
 * The environment variables of traces, as OpenTelemetry names them. Its library reads others by itself, such as
 * OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES.
 */
export const tracingVariables = {
  /** Where the collector is; traces go to /v1/traces there. */
  otlpEndpoint: address('OTEL_EXPORTER_OTLP_ENDPOINT'),
  /** The whole address for traces. */
  otlpTracesEndpoint: address('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'),
  otlpProtocol: choiceVariable<'http/protobuf'>('OTEL_EXPORTER_OTLP_PROTOCOL', 'http/protobuf', {
    'http/protobuf': 'http/protobuf',
  }),
  otelDisabled: flagVariable('OTEL_SDK_DISABLED', false),
  /** Undefined: only where an endpoint is named. */
  otelTracesExporter: choiceVariable<'otlp' | 'none' | undefined>('OTEL_TRACES_EXPORTER', undefined, {
    otlp: 'otlp',
    none: 'none',
  }),
  otelServiceName: textVariable('OTEL_SERVICE_NAME', 'crm'),
  otelSampler: choiceVariable<SamplerName>(
    'OTEL_TRACES_SAMPLER',
    'parentbased_always_on',
    Object.fromEntries(samplers.map((name) => [name, name])),
  ),
  otelSamplerRatio: ratio,
  /** How long spans may wait to be sent together, in milliseconds. */
  otelDelayMs: integerVariable('OTEL_BSP_SCHEDULE_DELAY', 5000, [1, 600_000]),
};

/** Where traces go. */
export type TracingConfig = VariableValues<typeof tracingVariables>;
