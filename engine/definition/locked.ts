import { compileExpression } from '../expressions/index.ts';
import type { Field } from '../fields/index.ts';
import type { Target } from '../yaml/index.ts';
import type { Lock, RawResource } from './definition.ts';

/** Returns the condition under which records are locked, and reports an invalid one at its exact location. */
export function readLock(
  { locked }: RawResource,
  fields: ReadonlyMap<string, Field>,
  report: (target: Target, message: string) => void,
): { readonly locked?: Lock } {
  if (locked === undefined) return {};
  const [source, path] =
    typeof locked === 'string' ? [locked, ['locked']] : [locked.when, ['locked', 'when']];
  const condition = compileExpression(
    source,
    { fields, expected: 'boolean', allowsCaller: false, allowsNow: true },
    (offset, text) => report({ path, offset }, text),
  );
  if (condition === undefined) return {};
  if (condition.fields.length === 0) {
    report({ path }, 'the condition must read a field');
    return {};
  }
  const message = typeof locked === 'string' ? undefined : locked.message;
  return { locked: { condition, ...(message !== undefined && { message }) } };
}
