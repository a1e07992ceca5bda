import { pluralize, type RuleReason } from '../errors.ts';
import { type TextFormatName, textFormatOf } from './formats.ts';
import type { FieldType, JsonSchema } from './type.ts';

/** The known values of a field. */
export interface KnownValues {
  readonly list: readonly string[];
  /** Whether the values are only suggestions, so that reports also include other values. */
  readonly isSuggestion: boolean;
  /** The only accepted values, including the empty string if it is the default. Absent if all strings are accepted. */
  readonly accepted?: readonly string[];
}

/** The keys of a field that limit its values. */
export interface RuleOptions {
  readonly values?: KnownValues;
  /** Smallest number. */
  readonly min?: number;
  /** Largest number. */
  readonly max?: number;
  /** Minimum length in characters. */
  readonly minLength?: number;
  /** Maximum length in characters. */
  readonly maxLength?: number;
  /** Regular expression (RE2). */
  readonly pattern?: string;
  readonly format?: TextFormatName;
  /** Maximum number of values in a list. */
  readonly maxItems?: number;
  /** The field's type, on which some conditions depend. */
  readonly type?: FieldType;
}

/**
 * A rule that limits a field's values. No rule applies to null. Of the rules for strings, only `max_length` and `closed`
 * apply to the empty string, so that clients can send a record back unchanged.
 */
export interface FieldRule {
  /** The rule's key in YAML. */
  readonly key: RuleKey;
  /** The rule's value in YAML. */
  readonly value: string | number | readonly string[];
  /** Keyword of the validator (see `validate.ts`), with the rule's value as its schema. */
  readonly keyword: string;
  /** Completes "<field> must …". */
  readonly must: string;
  /** Completes "<field> …" for a value that violates the rule. */
  readonly violation: string;
  /** Reason of issues about values that violate the rule. */
  readonly reason: RuleReason;
  /** JSON Schema keywords that describe the rule in the OpenAPI document. */
  readonly json: JsonSchema;
  /** Returns the SQL condition that a value, given as an SQL expression, meets the rule. Absent if SQL cannot check it. */
  readonly condition?: (value: string) => string;
  /** Whether a constraint of the table enforces the condition. */
  readonly isConstraint?: true;
  /** Returns whether every value that met the rule with a previous value also meets it now. */
  readonly isLooserThan: (previous: unknown) => boolean;
  /** Values at the rule's limit, for OpenAPI examples. */
  readonly examples?: readonly unknown[];
}

/** Returns a string as an SQL literal. */
const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Returns JSON Schema keywords for the number to which a rule applies. */
const numberKeywords = (type: FieldType | undefined, keywords: JsonSchema): JsonSchema =>
  type?.priced === true ? { properties: { amount: keywords } } : keywords;

/** The rules by YAML key. A rule is undefined if the field does not declare it. */
const rules = {
  min: ({ min, type }: RuleOptions) =>
    min === undefined
      ? undefined
      : {
          value: min,
          keyword: 'atLeast',
          must: `be at least ${min}`,
          violation: `is less than ${min}`,
          reason: { kind: 'min', limit: min } as const,
          json: numberKeywords(type, { minimum: min }),
          condition: (value: string) => `${value} >= ${min}`,
          isConstraint: true,
          isLooserThan: (previous: unknown) => Number(previous) >= min,
          examples: [min],
        },
  max: ({ max, type }: RuleOptions) =>
    max === undefined
      ? undefined
      : {
          value: max,
          keyword: 'atMost',
          must: `be at most ${max}`,
          violation: `is greater than ${max}`,
          reason: { kind: 'max', limit: max } as const,
          json: numberKeywords(type, { maximum: max }),
          condition: (value: string) => `${value} <= ${max}`,
          isConstraint: true,
          isLooserThan: (previous: unknown) => Number(previous) <= max,
          examples: [max],
        },
  min_length: ({ minLength }: RuleOptions) =>
    minLength === undefined
      ? undefined
      : {
          value: minLength,
          keyword: 'leastLength',
          must: `be at least ${pluralize(minLength, 'character')} long`,
          violation: `is shorter than ${pluralize(minLength, 'character')}`,
          reason: { kind: 'min_length', limit: minLength } as const,
          json: { minLength },
          condition: (value: string) => `(${value} = '' or length(${value}) >= ${minLength})`,
          isConstraint: true,
          isLooserThan: (previous: unknown) => Number(previous) >= minLength,
          examples: ['x'.repeat(Math.min(minLength, 100))],
        },
  max_length: ({ maxLength }: RuleOptions) =>
    maxLength === undefined
      ? undefined
      : {
          value: maxLength,
          keyword: 'maxLength',
          must: `be at most ${pluralize(maxLength, 'character')} long`,
          violation: `is longer than ${pluralize(maxLength, 'character')}`,
          reason: { kind: 'max_length', limit: maxLength } as const,
          json: { maxLength },
          condition: (value: string) => `length(${value}) <= ${maxLength}`,
          isLooserThan: (previous: unknown) => Number(previous) <= maxLength,
        },
  pattern: ({ pattern }: RuleOptions) =>
    pattern === undefined
      ? undefined
      : {
          value: pattern,
          keyword: 'linearPattern',
          must: `match ${pattern}`,
          violation: `does not match ${pattern}`,
          reason: { kind: 'pattern', pattern } as const,
          json: { pattern },
          isLooserThan: (previous: unknown) => previous === pattern,
        },
  format: ({ format }: RuleOptions) => {
    if (format === undefined) return undefined;
    const { expected, shape, json, examples } = textFormatOf(format);
    return {
      value: format,
      keyword: 'textFormat',
      must: `be ${expected}`,
      violation: `is not ${expected}`,
      reason: { kind: 'expected', expects: { type: format } } as const,
      json: { format: json },
      condition: (value: string) => `(${value} = '' or ${value} ~ ${quoted(shape)})`,
      isConstraint: true,
      isLooserThan: (previous: unknown) => previous === format,
      examples,
    };
  },
  max_items: ({ maxItems }: RuleOptions) =>
    maxItems === undefined
      ? undefined
      : {
          value: maxItems,
          keyword: 'maxItems',
          must: `contain at most ${pluralize(maxItems, 'value')}`,
          violation: `contains more than ${pluralize(maxItems, 'value')}`,
          reason: { kind: 'max_items', limit: maxItems } as const,
          json: { maxItems },
          condition: (value: string) => `cardinality(${value}) <= ${maxItems}`,
          isConstraint: true,
          isLooserThan: (previous: unknown) => Number(previous) <= maxItems,
        },
  closed: ({ values, type }: RuleOptions) => {
    const { accepted, list = [] } = values ?? {};
    if (accepted === undefined) return undefined;
    const isList = type?.element !== undefined;
    const names = list.join(', ');
    const literals = accepted.map(quoted).join(', ');
    return {
      value: accepted,
      keyword: isList ? 'allListed' : 'listed',
      must: isList ? `contain only ${names}` : `be one of ${names}`,
      violation: isList ? `contains a value other than ${names}` : `is not one of ${names}`,
      reason: { kind: 'closed', values: list } as const,
      json: {},
      condition: (value: string) =>
        isList ? `${value} <@ array[${literals}]::text[]` : `${value} in (${literals})`,
      isConstraint: true,
      isLooserThan: (previous: unknown) =>
        Array.isArray(previous) && previous.every((item) => accepted.includes(item)),
    };
  },
} as const satisfies Readonly<Record<string, (options: RuleOptions) => Omit<FieldRule, 'key'> | undefined>>;

/** The YAML key of a rule. */
export type RuleKey = keyof typeof rules;

/** The keys of all rules. */
export const ruleKeys = Object.keys(rules) as readonly RuleKey[];

/** Returns the rules that a field declares. */
export const rulesOf = (options: RuleOptions): readonly FieldRule[] =>
  ruleKeys.flatMap((key) => {
    const rule: Omit<FieldRule, 'key'> | undefined = rules[key](options);
    return rule === undefined ? [] : [{ key, ...rule }];
  });

/** Returns whether fields of a type support a rule. */
export function supportsRule({ bounded, ranged, listed }: FieldType, key: RuleKey): boolean {
  if (key === 'min' || key === 'max') return ranged === true;
  if (key === 'max_items') return listed === true;
  return bounded === true || (key === 'closed' && listed === true);
}

/**
 * Returns the SQL condition that a value meets the field's rules that the database enforces, or undefined if there are
 * none. A null value meets every rule, because the condition is then not false.
 * @param value SQL expression for the value
 */
export function constraintSql(field: RuleOptions, value: string): string | undefined {
  const conditions = rulesOf(field).flatMap(({ isConstraint, condition }) =>
    isConstraint === true && condition !== undefined ? [condition(value)] : [],
  );
  return conditions.length === 0 ? undefined : conditions.join(' and ');
}
