// Test support: reads the log of a service whose database fails.
import assert from 'node:assert/strict';

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly sqlstate?: string;
  readonly reason?: string;
}

/** Reasons that do not say why the database failed. */
const emptyReasons: readonly (string | undefined)[] = [
  undefined,
  'unknown',
  'Error',
  'database_failed',
  'too_slow',
];

/**
 * Reads the warnings and errors in a JSON log. Asserts that each of them has a SQLSTATE or a reason, except slow statements, which
 * did not fail.
 */
export function readOutageLog(log: string) {
  const lines = log
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
    .filter(({ level, msg }) => level >= 40 && msg !== 'slow statement');
  for (const line of lines) {
    assert.ok(!emptyReasons.includes(line.sqlstate ?? line.reason), JSON.stringify(line));
  }
  return {
    reasons: lines.map(({ sqlstate, reason }) => sqlstate ?? reason),
    messages: lines.map(({ msg }) => msg),
  };
}
