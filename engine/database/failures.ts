import { errors, HttpError } from '../errors.ts';

/** SQLSTATE for a reference to a record that does not exist in the organization. */
export const foreignKeyViolation = '23503';

/** SQLSTATE for a row whose unique key already exists. */
export const uniqueViolation = '23505';

/** Returns whether PostgreSQL rolled back a statement because of a deadlock. */
export const isDeadlock = (cause: unknown): boolean => sqlState(cause) === '40P01';

/** SQLSTATE returned if the server, database or role has no free connections. */
export const tooManyConnections = '53300';

/** Returns the SQLSTATE of a driver's error, or undefined if the server did not respond. */
export function sqlState(cause: unknown): string | undefined {
  const { code } = (cause ?? {}) as { code?: unknown };
  // Every SQLSTATE contains a digit, unlike codes such as EPIPE.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Returns the unique index that rejected a row, or undefined for any other failure. */
export function violatedConstraint(cause: unknown): string | undefined {
  const { constraint } = (cause ?? {}) as { constraint?: unknown };
  return sqlState(cause) === uniqueViolation && typeof constraint === 'string' ? constraint : undefined;
}

/**
 * SQLSTATEs for violated rules: integrity constraints (class 23), triggered data changes (27), and errors
 * raised by triggers with the default code (P0001), with `assert` (P0004), or with a code from class 45,
 * which no standard defines.
 */
const ruleStates = /^(?:23|27|45)...$|^P000[14]$/;

/**
 * Matches names of constraints created by the engine. A violation of one of them indicates a bug in the
 * engine.
 */
const engineKeys = /^crm_|_(?:pkey|foreign|filled)$/;

/** Matches the PL/pgSQL function that raised an error, in the first line of its context. */
const raisedInPattern = /^PL\/pgSQL function (?:inline_code_block|([^(\s]+))/;

/**
 * Returns the operator's constraint or trigger function that rejected a write, or undefined for any other
 * failure. Callers must first explain violations of declared references and unique fields.
 */
export function rejectingRule(cause: unknown): string | undefined {
  const state = sqlState(cause) ?? '';
  if (!ruleStates.test(state)) return undefined;
  const { table, constraint, column, where } = (cause ?? {}) as Readonly<Record<string, unknown>>;
  // Rules on platform tables do not concern the record.
  if (typeof table === 'string' && table.startsWith('crm_')) return undefined;
  if (typeof constraint === 'string') return engineKeys.test(constraint) ? undefined : constraint;
  if (typeof column === 'string') return `NOT NULL constraint on ${column}`;
  // Only triggers raise these states. Other errors without a name do not come from rules.
  return raisedInPattern.exec(String(where))?.[1] ?? (/^(?:P0|45)/.test(state) ? 'a trigger' : undefined);
}

/** Error codes for a lost connection, and pg's messages for errors without a code. */
const lostCodes = /^E(?:CONN\w+|PIPE|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/;
const lostMessages =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Client (?:has encountered|was closed))/;

/** Returns whether an error came from the database or the connection to it. */
export function isDatabaseError(cause: unknown): boolean {
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  return sqlState(cause) !== undefined || lostCodes.test(String(code)) || lostMessages.test(String(message));
}

/** Prefix of the error message if the password file cannot be read. */
export const unreadablePassword = 'Connection terminated: the password file';

/** Reasons for failures without a SQLSTATE, keyed by the prefix of the driver's message. */
const reasons: readonly (readonly [text: string, reason: string])[] = [
  ['timeout exceeded when trying to connect', 'no_connection_in_time'],
  ['timeout expired', 'connect_timeout'],
  ['Connection terminated due to connection timeout', 'connect_timeout'],
  ['Connection terminated: no response in time', 'no_response_in_time'],
  ['Connection terminated: the server is read-only', 'read_only'],
  [unreadablePassword, 'password_file_unreadable'],
  ['Connection terminated', 'connection_lost'],
  ['Client ', 'connection_lost'],
];

/**
 * Returns the reason for a failure as a single word: the SQLSTATE, or a code or name if the server did not
 * respond.
 */
export function failureReason(cause: unknown): string {
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  const reason = reasons.find(([text]) => String(message).startsWith(text));
  return sqlState(cause) ?? (lostCodes.test(String(code)) ? String(code) : (reason?.[1] ?? 'unknown'));
}

/** Returns the first frames of an error's stack trace, without the message that precedes them. */
export function framesOf(cause: unknown): string[] | undefined {
  const { message, stack } = (cause ?? {}) as { readonly message?: unknown; readonly stack?: unknown };
  if (typeof message !== 'string' || typeof stack !== 'string') return undefined;
  const start = stack.indexOf(message);
  if (start === -1) return undefined;
  const frames = stack.slice(start + message.length).split('\n    at ');
  return frames.slice(1, 6);
}

/** Properties with which a failure of background work is logged. */
interface FailureDetails {
  /** The reason in a single word. */
  readonly reason: string;
  readonly code: string | undefined;
  /** The first frames of the stack trace, or undefined if the database failed. */
  readonly stack: readonly string[] | undefined;
}

/**
 * Returns the properties with which a failure of background work is logged. The error's message is omitted, because it can contain
 * values.
 */
export function failureDetails(error: unknown): FailureDetails {
  const cause = error instanceof HttpError ? (error.cause ?? error) : error;
  const { code: value, name } = (cause ?? {}) as { readonly code?: unknown; readonly name?: string };
  // The code of a DOMException is a number without a meaning.
  const code = typeof value === 'string' ? value : undefined;
  if (isDatabaseError(cause)) return { reason: failureReason(cause), code, stack: undefined };
  return { reason: code ?? name ?? 'unknown', code, stack: framesOf(cause) };
}

/**
 * SQLSTATEs for a cancelled statement, for example one that exceeded its time limit, and for a lock timeout.
 */
export const timeoutStates: readonly string[] = ['57014', '55P03'];

/** Returns whether a statement exceeded its time limit. */
export const isStatementTimeout = (cause: unknown): boolean => sqlState(cause) === '57014';

/**
 * Converts a driver's error to an HttpError: 503 if the database cancelled the statement, 400 if an
 * operator's rule rejected a write, and 500 otherwise. Clients can retry after 500 and 503. An HttpError, for example for
 * a statement that was not admitted, is returned as it is.
 */
export function databaseFailure(cause: unknown): HttpError {
  if (cause instanceof HttpError) return cause;
  const state = sqlState(cause);
  if (state !== undefined && timeoutStates.includes(state)) return errors.tooSlow(cause);
  const rule = rejectingRule(cause);
  if (rule !== undefined) return errors.rejectedByDatabase(rule, cause);
  return errors.database(cause);
}
