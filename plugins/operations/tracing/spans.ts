import { setTimeout as pause } from 'node:timers/promises';
import {
  type Context,
  defaultTextMapGetter,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { SamplerName, TracingConfig } from './variables.ts';

/** How long a service that stops waits for its last traces to be sent, in milliseconds. */
const lastMs = 1000;
/** Where a collector listens if nothing else is said. */
const defaultEndpoint = 'http://localhost:4318';

/** Traces requests: a span for each, and below it one for each statement for records. */
export function traceRequests(app: FastifyInstance, config: TracingConfig, version: string): void {
  const url =
    config.otlpTracesEndpoint ?? `${(config.otlpEndpoint ?? defaultEndpoint).replace(/\/$/, '')}/v1/traces`;
  const exporter = telling(new OTLPTraceExporter({ url }), app.log);
  const resource = resourceFromAttributes({
    'service.name': config.otelServiceName,
    'service.version': version,
    'process.pid': process.pid,
  });
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(resource)
      .merge(detectResources({ detectors: [envDetector] })),
    sampler: samplerOf(config.otelSampler, config.otelSamplerRatio),
    spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: config.otelDelayMs })],
  });
  const tracer = provider.getTracer('crm-engine', version);
  const propagator = new W3CTraceContextPropagator();
  const begun = new WeakMap<FastifyRequest, { readonly span: Span; readonly context: Context }>();

  const end = (request: FastifyRequest, status: number | undefined): void => {
    const traced = begun.get(request);
    if (traced === undefined) return;
    begun.delete(request);
    const { span, context } = traced;
    if (span.isRecording()) {
      for (const { name, lane, at, ms } of request.trace?.statements ?? []) {
        const attributes = { 'db.system.name': 'postgresql', 'crm.statement': name, 'crm.lane': lane };
        tracer
          .startSpan(name || lane, { kind: SpanKind.CLIENT, startTime: at, attributes }, context)
          .end(at + ms);
      }
      span.setAttributes(outcomeOf(request, status));
      if (status === undefined || status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
    }
    span.end();
  };

  app.tracesStatements = true;
  app.addHook('onRequest', (request, _reply, done) => {
    const parent = propagator.extract(ROOT_CONTEXT, request.headers, defaultTextMapGetter);
    const route = request.routeOptions.url;
    const attributes = {
      'http.request.method': request.method,
      // Not the address, which may hold what was sent.
      ...(route !== undefined && { 'http.route': route }),
      'crm.request_id': request.id,
    };
    const name = route === undefined ? request.method : `${request.method} ${route}`;
    const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
    begun.set(request, { span, context: trace.setSpan(parent, span) });
    done();
  });
  app.addHook('onResponse', (request: FastifyRequest, reply: FastifyReply, done) => {
    end(request, reply.statusCode);
    done();
  });
  // The client went away.
  app.addHook('onRequestAbort', (request, done) => {
    end(request, undefined);
    done();
  });
  app.addHook('onClose', async () => {
    await Promise.race([provider.shutdown().catch(() => {}), pause(lastMs, undefined, { ref: false })]);
  });
}

/** What is known of a request once it has its response. */
function outcomeOf({ principal, trace: cost }: FastifyRequest, status: number | undefined) {
  const isKnown = principal?.kind === 'key' || principal?.kind === 'user';
  return {
    ...(status !== undefined && { 'http.response.status_code': status }),
    ...(principal !== null && {
      'crm.organization.id': principal.organization,
      ...(isKnown && { [`crm.${principal.kind}.id`]: principal.actor ?? '' }),
    }),
    ...(cost?.lane !== undefined && { 'crm.lane': cost.lane, 'crm.statement_ms': cost.statementMs }),
  };
}

function samplerOf(name: SamplerName, ratio: number): Sampler {
  const root = name.endsWith('always_on')
    ? new AlwaysOnSampler()
    : name.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(ratio);
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

/** An exporter that says in the log when it begins to fail, and when it works again. */
function telling(exporter: SpanExporter, log: FastifyInstance['log']): SpanExporter {
  let isFailing = false;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const fails = result.code !== ExportResultCode.SUCCESS;
        // Not the text: it may hold an address with credentials.
        const { code } = (result.error ?? {}) as { code?: string | number };
        if (fails && !isFailing) log.warn({ code }, 'traces cannot be sent; pending traces are lost');
        if (!fails && isFailing) log.warn('traces are being sent again');
        isFailing = fails;
        done({ code: ExportResultCode.SUCCESS });
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}
