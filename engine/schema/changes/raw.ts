import type { Raw } from './change.ts';
import type { Effects } from './effects.ts';
import type { Kind } from './kind.ts';

/** Returns a change that runs a statement. */
export const raw = (sql: string): Raw => ({ kind: 'raw', sql });

const opaque: Effects = { lock: 'unknown', touches: 'nothing', risks: ['blocking', 'data-dependent'] };

export const rawKind: Kind<Raw> = {
  apply: (tables) => tables,
  sql: ({ sql }) => [sql],
  risk: ({ effects = opaque }) => effects,
  describe: ({ effects }) => effects?.says ?? 'is hand-written SQL. Review it by hand.',
};
