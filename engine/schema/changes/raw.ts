import type { Raw } from './change.ts';
import { accesses, changeEffects, lockModes, riskNames } from './effects.ts';
import type { Kind } from './kind.ts';
import { listOf, oneOf, optional, propertiesOf, text } from './rules.ts';

/** Returns a change that runs a statement. */
export const raw = (sql: string): Raw => ({ kind: 'raw', sql });

const effectsRule = propertiesOf({
  lock: oneOf(...lockModes, 'unknown'),
  touches: oneOf(...accesses),
  risks: listOf(oneOf(...riskNames)),
  says: text,
});

const opaque = changeEffects('unknown', 'nothing', 'blocking', 'data-dependent');

export const rawKind: Kind<Raw> = {
  rules: { sql: text, table: optional(text), effects: optional(effectsRule) },
  apply: (tables) => tables,
  sql: ({ sql }) => [sql],
  risk: ({ effects: declared = opaque }) => declared,
  describe: ({ effects: declared }) => declared?.says ?? 'is hand-written SQL. Review it by hand.',
};
