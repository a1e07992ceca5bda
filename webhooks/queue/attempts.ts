import type { Language } from '../../plugins/admin-ui/shell/index.ts';
import { type Reason, reasonSentence, shortened, translatedReason, type Wordings } from './reasons.ts';

/** Facts about a request that was sent. */
export interface RequestFacts {
  /** The response's status code. Absent if there was no response. */
  readonly status?: number;
  /** Sizes of the request body and the response body, in bytes. */
  readonly sent: number;
  readonly received?: number;
}

/** Result of processing an item. */
export interface ItemOutcome {
  /** Why the item failed. Absent if it succeeded. */
  readonly failure?: Reason;
  /** Why there was nothing to do, so that the item succeeded. */
  readonly skipped?: Reason;
  /** Facts about the request, if one was sent. */
  readonly request?: RequestFacts;
  /** Delay before the next attempt, in milliseconds. Absent if the item succeeded or will not be retried. */
  readonly retryMs?: number;
  /** Additional columns to write. */
  readonly values?: Readonly<Record<string, string>>;
}

/** An attempt to process an item. */
export interface ItemAttempt {
  /** When the attempt started (RFC 3339). */
  readonly at: string;
  /** Duration in milliseconds. */
  readonly ms: number;
  /** `skipped` if there was nothing to do. */
  readonly result: 'done' | 'skipped' | 'failed';
  /** Why the attempt failed or was skipped. */
  readonly reason?: Reason;
  readonly request?: RequestFacts;
}

/** Maximum number of attempts that are stored for an item. */
export const maxAttempts = 20;

/** Returns an attempt as a line of an item's `attempt_log`, whose first line is the latest attempt. */
export function attemptLine(
  { failure, skipped, request }: Pick<ItemOutcome, 'failure' | 'skipped' | 'request'>,
  { at, ms }: Pick<ItemAttempt, 'at' | 'ms'>,
): string {
  const reason = failure ?? skipped;
  const attempt: ItemAttempt = {
    at,
    ms,
    result: failure !== undefined ? 'failed' : skipped !== undefined ? 'skipped' : 'done',
    ...(reason !== undefined && { reason: shortened(reason) }),
    ...(request !== undefined && { request }),
  };
  return JSON.stringify(attempt);
}

/**
 * Returns the SQL expression for the new `attempt_log` of an item.
 * @param row alias of the item
 * @param line SQL expression for the line of the latest attempt
 */
export const withAttempt = (row: string, line: string): string =>
  `array_to_string((array[${line}] || string_to_array(${row}.attempt_log, E'\\n'))[1:${maxAttempts}], E'\\n')`;

/** Returns the SQL expression for the latest attempt in the `attempt_log` of a row. */
export const latestAttempt = (row: string): string => `split_part(${row}.attempt_log, E'\\n', 1)`;

/** Returns the attempts in an `attempt_log`, latest first. */
export const attemptsIn = (log: string): readonly ItemAttempt[] =>
  log === '' ? [] : log.split('\n').map((line) => JSON.parse(line) as ItemAttempt);

/**
 * Returns the reason for an item's state in a language, or an empty string. Sentences that were stored without the reason
 * are in English.
 */
export function reasonFor(
  wordings: Wordings,
  {
    status,
    error,
    latest,
  }: { readonly status: string; readonly error: string; readonly latest: ItemAttempt | undefined },
  language: Language,
): string {
  const { reason, result } = latest ?? {};
  if (reason === undefined) return error;
  const applies = result === 'skipped' ? status === 'done' : reasonSentence(wordings, reason) === error;
  return (applies ? translatedReason(wordings, reason, language) : undefined) ?? error;
}
