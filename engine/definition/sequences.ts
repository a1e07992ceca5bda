import { type Field, ruleKeys, type SequenceFormat } from '../fields/index.ts';
import { withArticle } from '../yaml/index.ts';
import type { RawField, ReportIssue } from './definition.ts';

/** Keys that a field with a sequence cannot have, because its values are never sent and always distinct. */
export const sequenceConflicts: readonly (keyof RawField)[] = [
  'read_only',
  'set',
  'nullable',
  'required',
  'default',
  'default_from',
  'enum',
  'suggested',
  'transitions',
  'initial',
  'unique',
  'sensitive',
  ...ruleKeys,
];

/** Returns a field's YAML without the keys that conflict with `sequence`, and reports these keys. */
export function withoutSequenceConflicts(raw: RawField, report: ReportIssue): RawField {
  if (raw.sequence === undefined) return raw;
  if (raw.type !== 'string') {
    report('sequence', `${withArticle(raw.type)} field cannot have "sequence". Use "type: string".`);
    const { sequence: _, ...rest } = raw;
    return rest;
  }
  const conflicts = sequenceConflicts.filter((key) => raw[key] !== undefined && raw[key] !== false);
  for (const key of conflicts) report(key, `a field with "sequence" cannot have "${key}"`);
  const names = new Set<string>(sequenceConflicts);
  return {
    ...Object.fromEntries(Object.entries(raw).filter(([key]) => !names.has(key))),
    type: raw.type,
  };
}

/** Returns the sequence from which the server takes a field's values. */
export function readSequence({ sequence: format }: RawField): Pick<Field, 'sequence'> {
  const [, prefix = '', zeros = '', suffix = ''] = /^(.*)\{(0+)\}(.*)$/.exec(format ?? '') ?? [];
  if (format === undefined) return {};
  const sequence: SequenceFormat = { format, prefix, digits: zeros.length, suffix };
  return { sequence };
}
