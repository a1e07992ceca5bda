import {
  anyCurrency,
  canRollUp,
  computedType,
  type FieldType,
  fieldTypeNamed,
  isComputable,
  isNullableRollup,
  type RollupFunction,
  rollupType,
  ruleKeys,
  storedRollupType,
} from '../fields/index.ts';
import { withArticle } from '../yaml/index.ts';
import type { RawField, RawRollup, ReportIssue } from './definition.ts';

/** The keys that derive a field's values from other fields. */
export const derivedKeys = ['computed', 'rollup'] as const;
/** Name of a key that derives a field's values. */
export type DerivedKey = (typeof derivedKeys)[number];

/** Keys that a field cannot have if its values are derived. */
export const storedOnlyKeys = [
  'default',
  'default_from',
  'set',
  ...ruleKeys.filter((key) => key !== 'closed'),
  'message',
] as const;

/** Keys that cannot be true if the field's values are derived. */
export const storedOnlyFlags = ['assignable', 'nullable', 'required', 'unique', 'closed'] as const;

/** The functions of rollups. */
export const rollupFunctions = [
  'count',
  'sum',
  'min',
  'max',
  'avg',
] as const satisfies readonly RollupFunction[];

/** Returns the key that derives a field's values, or undefined if they are stored. */
export const derivedKey = (raw: Partial<RawField>): DerivedKey | undefined =>
  derivedKeys.find((key) => raw[key] !== undefined);

/** Returns whether callers store a field's values, which are not joined or derived. */
export const isStored = (raw: Pick<RawField, 'type'> & Partial<RawField>): boolean =>
  fieldTypeNamed(raw.type)?.joins !== true && derivedKey(raw) === undefined;

/** Returns a field's type, without the properties of values that callers store if its values are derived. */
export function withoutStorage(type: FieldType, raw: Partial<RawField>): FieldType {
  const key = derivedKey(raw);
  if (key === undefined) return type;
  if (key === 'computed') return computedType(type);
  return raw.rollup?.stored === true ? storedRollupType(type) : rollupType(type);
}

/** Returns the keys that a field has: those of `keys` with any value, and those of `flags` that are true. */
export const presentKeys = <K extends keyof RawField>(
  raw: Partial<RawField>,
  keys: readonly K[],
  flags: readonly K[],
): readonly K[] => [
  ...keys.filter((key) => raw[key] !== undefined),
  ...flags.filter((key) => raw[key] === true),
];

/** Returns the functions that a rollup names. */
export const functionsOf = (rollup: RawRollup): readonly RollupFunction[] =>
  rollupFunctions.filter((name) => rollup[name] !== undefined);

/** Returns whether a derived value of a type can be null. */
export function isDerivedNullable(raw: Partial<RawField>, type: FieldType): boolean {
  if (raw.rollup === undefined) return type.operand !== 'boolean';
  const [name = 'count'] = functionsOf(raw.rollup);
  return isNullableRollup(name, type);
}

/** Types of derived fields, for messages. */
const typesOf: Readonly<Record<DerivedKey, string>> = {
  computed: 'number, integer, int64, boolean, or money with a fixed currency',
  rollup: 'number, integer, int64, date, timestamp, or money with a fixed currency',
};

/** Checks the type and the other keys of a field whose values are derived. */
export function checkDerived(raw: RawField, type: FieldType, key: DerivedKey, report: ReportIssue): void {
  if (raw.computed !== undefined && raw.rollup !== undefined)
    report('rollup', '"computed" and "rollup" are mutually exclusive: remove one');
  const isSuitable = key === 'computed' ? isComputable(type) : canRollUp(type);
  if (!isSuitable || raw.currency === anyCurrency)
    report(key, `${withArticle(raw.type)} field cannot have "${key}". Possible types: ${typesOf[key]}.`);
  for (const other of presentKeys(raw, storedOnlyKeys, storedOnlyFlags))
    report(other, `a field with "${key}" cannot have "${other}"`);
  if (raw.rollup === undefined) return;
  const [name, ...more] = functionsOf(raw.rollup);
  if (name === undefined || more.length > 0)
    report('rollup', `a rollup needs exactly one of ${rollupFunctions.join(', ')}`);
  else if (name === 'count' && type.operand !== 'integer')
    report('type', '"count" needs "type: integer" or "type: int64"');
}
