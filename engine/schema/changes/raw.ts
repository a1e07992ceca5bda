import type { Raw } from './change.ts';
import { accesses, changeEffects, lockModes, riskNames } from './effects.ts';
import type { Kind } from './kind.ts';
import { listOf, objectOf, oneOf, optional, text } from './shape.ts';

/** Returns a change that runs a statement. */
export const raw = (sql: string): Raw => ({ kind: 'raw', sql });

const effectsShape = objectOf({
  lock: oneOf(...lockModes, 'unknown'),
  touches: oneOf(...accesses),
  risks: listOf(oneOf(...riskNames)),
  says: text,
});

const opaque = changeEffects('unknown', 'nothing', 'blocking', 'data-dependent');

export const rawKind: Kind<Raw> = {
  shape: { sql: text, table: optional(text), effects: optional(effectsShape) },
  apply: (tables) => tables,
  sql: ({ sql }) => [sql],
  risk: ({ effects: declared = opaque }) => declared,
  describe: ({ effects: declared }) => declared?.says ?? 'is hand-written SQL. Review it by hand.',
};
