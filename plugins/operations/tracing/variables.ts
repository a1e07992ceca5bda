import {
  choiceVariable,
  flagVariable,
  integerVariable,
  maskCredentials,
  textVariable,
  type Variable,
  type VariableValues,
} from '../../../engine/config/index.ts';

const urlVariable = (name: string): Variable<string | undefined> => ({
  name,
  fallback: undefined,
  expected: 'an http or https URL, such as http://127.0.0.1:4318',
  show: (value) => (value === undefined ? 'not set' : maskCredentials(value)),
  read: (text) => (/^https?:$/.test(URL.parse(text)?.protocol ?? '') ? text : undefined),
});

const samplers = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;
/** Names of samplers, which decide which requests are traced. */
export type SamplerName = (typeof samplers)[number];

const ratio: Variable<number> = {
  name: 'OTEL_TRACES_SAMPLER_ARG',
  fallback: 1,
  expected: 'a number from 0 to 1',
  read: (text) => (/^(?:0|1|[01]?\.\d+|1\.0)$/.test(text) && +text <= 1 ? +text : undefined),
};

/**
 * Environment variables that configure tracing, named as in OpenTelemetry. The OpenTelemetry library also
 * reads other variables, for example OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES.
 */
export const tracingVariables = {
  /** Collector URL. Traces are sent to the path /v1/traces below it. */
  otlpEndpoint: urlVariable('OTEL_EXPORTER_OTLP_ENDPOINT'),
  /** Complete URL to which traces are sent. */
  otlpTracesEndpoint: urlVariable('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'),
  otlpProtocol: choiceVariable<'http/protobuf'>('OTEL_EXPORTER_OTLP_PROTOCOL', 'http/protobuf', {
    'http/protobuf': 'http/protobuf',
  }),
  otelDisabled: flagVariable('OTEL_SDK_DISABLED', false),
  /** If undefined, traces are sent only if an endpoint is set. */
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
  /** Maximum delay before spans are sent in a batch, in milliseconds. */
  otelDelayMs: integerVariable('OTEL_BSP_SCHEDULE_DELAY', 5000, [1, 600_000]),
};

/** Configuration for tracing. */
export type TracingConfig = VariableValues<typeof tracingVariables>;
