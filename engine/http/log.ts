import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Trace } from '../database/index.ts';

/** A destination for log lines in JSON format. */
interface LogStream {
  readonly write: (line: string) => void;
}

const levels: Readonly<Record<number, string>> = {
  10: 'TRACE',
  20: 'DEBUG',
  30: 'INFO ',
  40: 'WARN ',
  50: 'ERROR',
  60: 'FATAL',
};

/** Keys that are omitted or printed before all others. */
const standardKeys = ['level', 'time', 'pid', 'hostname', 'msg'];

/** Formats a log line as text: time, level, message, then all other keys. */
export function formatLogLine(line: string): string {
  const entry = JSON.parse(line) as Readonly<Record<string, unknown>>;
  const { level, time, msg = '' } = entry;
  const at = new Date(Number(time)).toISOString().slice(11, 23);
  const rest = Object.entries(entry)
    .filter(([key, value]) => !standardKeys.includes(key) && value !== null)
    .map(([key, value]) => `${key}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`);
  return `${[at, levels[Number(level)] ?? String(level), msg, ...rest].join(' ').trimEnd()}\n`;
}

/** Writes log lines to standard error, as JSON or text. */
export const logStream = (format: 'json' | 'text'): LogStream =>
  format === 'json' ? process.stderr : { write: (line) => void process.stderr.write(formatLogLine(line)) };

/** Returns the caller IDs to log for a request. */
function callerOf({ principal }: FastifyRequest) {
  if (principal === null) return {};
  const { organization, kind, actor } = principal;
  return { organization, ...((kind === 'key' || kind === 'user') && { [kind]: actor }) };
}

const roundMs = (milliseconds: number): number => Math.round(milliseconds * 100) / 100;

/** Describes a request by its route instead of its URL, which can contain input. */
const describeRequest = (request: FastifyRequest) => ({
  method: request.method,
  route: request.routeOptions.url ?? null,
  ...callerOf(request),
});

const costOf = ({ lane, statementMs }: Trace) => ({ lane, statement_ms: roundMs(statementMs) });

/** Logs one line per request, regardless of the log level. */
export function logRequests(app: FastifyInstance): void {
  const log = app.log.child({}, { level: 'info' });
  app.addHook('onResponse', (request, reply, done) => {
    const entry = {
      request_id: request.id,
      ...describeRequest(request),
      status: reply.statusCode,
      ...(request.trace?.lane !== undefined && costOf(request.trace)),
      duration_ms: roundMs(reply.elapsedTime),
    };
    log.info(entry, 'request');
    done();
  });
}

/** Logs a request whose statements were slow. */
export const logSlow = (request: FastifyRequest, trace: Trace): void =>
  request.log.warn({ ...describeRequest(request), ...costOf(trace) }, 'slow statement');
