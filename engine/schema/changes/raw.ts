import type { Raw } from './change.ts';
import { changeEffects } from './effects.ts';
import type { Kind } from './kind.ts';

/** Returns a change that runs a statement. */
export const raw = (sql: string): Raw => ({ kind: 'raw', sql });

const opaque = changeEffects('unknown', 'nothing', 'blocking', 'data-dependent');

export const rawKind: Kind<Raw> = {
  apply: (tables) => tables,
  sql: ({ sql }) => [sql],
  risk: ({ effects: declared = opaque }) => declared,
  describe: ({ effects: declared }) => declared?.says ?? 'is hand-written SQL. Review it by hand.',
};
