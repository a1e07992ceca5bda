import { errors, type HttpError } from '../errors.ts';

/** SQLSTATE of a foreign key violation: a reference to a record that does not exist in the organization. */
export const foreignKeyViolation = '23503';

/** SQLSTATE of a unique violation: another row has the same key. */
export const uniqueViolation = '23505';

/** Returns the SQLSTATE of a driver's error, or undefined if the server did not respond. */
export function sqlState(cause: unknown): string | undefined {
  const { code } = (cause ?? {}) as { code?: unknown };
  // Every SQLSTATE has a digit; EPIPE has none.
  return typeof code === 'string' && /^(?=.*\d)[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/** Returns the unique index that rejected a row, or undefined for any other failure. */
export function violatedConstraint(cause: unknown): string | undefined {
  const { constraint } = (cause ?? {}) as { constraint?: unknown };
  return sqlState(cause) === uniqueViolation && typeof constraint === 'string' ? constraint : undefined;
}

/**
 * SQLSTATEs of rules: integrity constraints (class 23), triggers' data changes (27), and errors raised by triggers, with
 * the default code (P0001), `assert` (P0004) or a code of their own from the class that no standard defines (45).
 */
const ofRules = /^(?:23|27|45)...$|^P000[14]$/;

/** Names of keys created by the engine: a row that they reject is an error of the engine. */
const own = /^crm_|_(?:pkey|foreign|filled)$/;

/** Matches the PL/pgSQL function that raised an error, in the first line of its context. */
const raisedIn = /^PL\/pgSQL function (?:inline_code_block|([^(\s]+))/;

/**
 * Returns the constraint or trigger function, added by the operator, that rejected a write, or undefined for any other
 * failure. Operations have already explained violations of declared references and unique fields.
 */
export function rejectingRule(cause: unknown): string | undefined {
  const state = sqlState(cause) ?? '';
  if (!ofRules.test(state)) return undefined;
  const { table, constraint, column, where } = (cause ?? {}) as Readonly<Record<string, unknown>>;
  // A rule on a table of the platform is not about the record.
  if (typeof table === 'string' && table.startsWith('crm_')) return undefined;
  if (typeof constraint === 'string') return own.test(constraint) ? undefined : constraint;
  if (typeof column === 'string') return `not null of ${column}`;
  // Only a trigger raises these states; others without a name are not a rule's.
  return raisedIn.exec(String(where))?.[1] ?? (/^(?:P0|45)/.test(state) ? 'a trigger' : undefined);
}

/** Codes of a lost connection, and pg's messages for errors without a code. */
const lost = /^E(?:CONN\w+|PIPE|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/;
const lostTexts =
  /^(?:Connection terminated|timeout exceeded when trying to connect|timeout expired|Client (?:has encountered|was closed))/;

/** Whether an error came from the database or the connection to it. */
export function isDatabaseError(cause: unknown): boolean {
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  return sqlState(cause) !== undefined || lost.test(String(code)) || lostTexts.test(String(message));
}

/** Start of the error if the file with the password cannot be read. */
export const unreadablePassword = 'Connection terminated: the password file';

/** Reasons for failures without a SQLSTATE, by the start of the driver's text. */
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

/** Returns the reason for a failure in one word: the SQLSTATE, or a code or name if there was no response. */
export function failureReason(cause: unknown): string {
  const { code, message } = (cause ?? {}) as { code?: unknown; message?: unknown };
  const known = reasons.find(([text]) => String(message).startsWith(text));
  return sqlState(cause) ?? (lost.test(String(code)) ? String(code) : (known?.[1] ?? 'unknown'));
}

/** SQLSTATEs of a statement that was cancelled, for example by its time limit, and of one that waited too long for a lock. */
export const timeoutStates: readonly string[] = ['57014', '55P03'];

/** Whether a statement exceeded its time limit. */
export const isStatementTimeout = (cause: unknown): boolean => sqlState(cause) === '57014';

/**
 * A driver's error as a 500; as a 503 if the database ended a statement, as a 400 if a
 * rule of the operator's rejected a write. 500 and 503 say when to try again.
 */
export function databaseFailure(cause: unknown): HttpError {
  const state = sqlState(cause);
  if (state !== undefined && timeoutStates.includes(state)) return errors.tooSlow(cause);
  const rule = rejectingRule(cause);
  if (rule !== undefined) return errors.rejectedByDatabase(rule, cause);
  return errors.database(cause);
}
