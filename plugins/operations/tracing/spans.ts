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

/** How long a stopping service waits for its last traces to be sent, in milliseconds. */
const shutdownMs = 1000;
/** Collector URL to use if none is configured. */
const defaultEndpoint = 'http://localhost:4318';

/** Traces requests. Each request has a span, with a child span for each of its statements on records. */
export function traceRequests(app: FastifyInstance, config: TracingConfig, version: string): void {
  const url =
    config.otlpTracesEndpoint ?? `${(config.otlpEndpoint ?? defaultEndpoint).replace(/\/$/, '')}/v1/traces`;
  const exporter = withFailureLog(new OTLPTraceExporter({ url }), app.log);
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
  const openSpans = new WeakMap<FastifyRequest, { readonly span: Span; readonly context: Context }>();

  const end = (request: FastifyRequest, status: number | undefined): void => {
    const entry = openSpans.get(request);
    if (entry === undefined) return;
    openSpans.delete(request);
    const { span, context } = entry;
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
      // The route is recorded instead of the URL, because the URL can contain data.
      ...(route !== undefined && { 'http.route': route }),
      'crm.request_id': request.id,
    };
    const name = route === undefined ? request.method : `${request.method} ${route}`;
    const span = tracer.startSpan(name, { kind: SpanKind.SERVER, attributes }, parent);
    openSpans.set(request, { span, context: trace.setSpan(parent, span) });
    done();
  });
  app.addHook('onResponse', (request: FastifyRequest, reply: FastifyReply, done) => {
    end(request, reply.statusCode);
    done();
  });
  // Called if the client disconnects before the response is sent.
  app.addHook('onRequestAbort', (request, done) => {
    end(request, undefined);
    done();
  });
  app.addHook('onClose', async () => {
    await Promise.race([provider.shutdown().catch(() => {}), pause(shutdownMs, undefined, { ref: false })]);
  });
}

/** Returns the span attributes that are known only after the response has been sent. */
function outcomeOf({ principal, trace: requestTrace }: FastifyRequest, status: number | undefined) {
  const hasActorId = principal?.kind === 'key' || principal?.kind === 'user';
  return {
    ...(status !== undefined && { 'http.response.status_code': status }),
    ...(principal !== null && {
      'crm.organization.id': principal.organization,
      ...(hasActorId && { [`crm.${principal.kind}.id`]: principal.actor ?? '' }),
    }),
    ...(requestTrace?.lane !== undefined && {
      'crm.lane': requestTrace.lane,
      'crm.statement_ms': requestTrace.statementMs,
    }),
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

/** Wraps an exporter to log when it starts failing and when it recovers. */
function withFailureLog(exporter: SpanExporter, log: FastifyInstance['log']): SpanExporter {
  let isFailing = false;
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const hasFailed = result.code !== ExportResultCode.SUCCESS;
        // Only the code is logged, because the message can contain a URL with credentials.
        const { code } = (result.error ?? {}) as { code?: string | number };
        if (hasFailed && !isFailing) log.warn({ code }, 'traces cannot be sent; pending traces are lost');
        if (!hasFailed && isFailing) log.warn('traces are being sent again');
        isFailing = hasFailed;
        done({ code: ExportResultCode.SUCCESS });
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  };
}
