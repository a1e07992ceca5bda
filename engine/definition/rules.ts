import {
  defaultMaxValues,
  type Field,
  type FieldType,
  type Lookup,
  ruleKeys,
  supportsRule,
  textFormatOf,
} from '../fields/index.ts';
import { withArticle } from '../yaml/index.ts';
import type { RawField, ReportIssue } from './definition.ts';

/** Returns a field's rules from its YAML, and reports rules that its type does not support or that exclude each other. */
export function readRules(
  raw: RawField,
  type: FieldType,
  report: ReportIssue,
): Pick<
  Field,
  'min' | 'max' | 'minLength' | 'maxLength' | 'maxItems' | 'pattern' | 'format' | 'comparison' | 'message'
> {
  const { min, max, min_length: minLength, max_length: maxLength, pattern, format, message } = raw;
  const maxItems = type.listed === true ? (raw.max_items ?? defaultMaxValues) : undefined;
  const declared = ruleKeys.filter((key) => raw[key] !== undefined && raw[key] !== false);
  for (const key of declared) {
    if (!supportsRule(type, key)) report(key, `${withArticle(raw.type)} field cannot have "${key}"`);
    else if (raw.set !== undefined) report(key, `a field with "set" cannot have "${key}"`);
  }
  if (message !== undefined && declared.length === 0)
    report('message', '"message" needs a rule, for example "max" or "pattern"');
  for (const [key, limit] of [
    ['min', min],
    ['max', max],
  ] as const) {
    if (limit === undefined || !supportsRule(type, key)) continue;
    if (Number.isInteger(limit) && !Number.isSafeInteger(limit))
      report(key, `"${key}" must be between -(2^53 - 1) and 2^53 - 1`);
    else if (type.operand === 'integer' && !Number.isInteger(limit))
      report(key, `"${key}" of ${withArticle(raw.type)} field must be an integer`);
  }
  if (min !== undefined && max !== undefined && min > max)
    report('min', `"min" (${min}) is greater than "max" (${max})`);
  if (minLength !== undefined && maxLength !== undefined && minLength > maxLength)
    report('min_length', `"min_length" (${minLength}) is greater than "max_length" (${maxLength})`);
  const ofFormat = format === undefined ? undefined : textFormatOf(format).comparison;
  if (ofFormat !== undefined && raw.lookup !== undefined && raw.lookup !== ofFormat)
    report(
      'lookup',
      `"lookup: ${raw.lookup}" and "format: ${format}" compare values differently. Remove "lookup"${isLookup(ofFormat) ? `, or use "lookup: ${ofFormat}"` : ''}.`,
    );
  const comparison = ofFormat ?? raw.lookup;
  return {
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
    ...(minLength === undefined ? {} : { minLength }),
    ...(maxLength === undefined ? {} : { maxLength }),
    ...(maxItems === undefined ? {} : { maxItems }),
    ...(pattern === undefined ? {} : { pattern }),
    ...(format === undefined ? {} : { format }),
    ...(comparison === undefined || comparison === 'exact' ? {} : { comparison }),
    ...(message === undefined ? {} : { message }),
  };
}

/** Returns whether YAML can name a lookup. */
const isLookup = (name: Lookup): boolean => name !== 'compact';

/** Reports a range that excludes the type's empty value if this is the field's default. */
export function checkEmptyValue(raw: RawField, field: Field, report: ReportIssue): void {
  const { type, nullable, required, set, min, max } = field;
  const { empty } = type;
  if (raw.default !== undefined || nullable || required || set !== undefined || typeof empty !== 'number')
    return;
  const [key, violation] =
    min !== undefined && empty < min
      ? ['min', 'less']
      : max !== undefined && empty > max
        ? ['max', 'greater']
        : [];
  if (key === undefined) return;
  report(
    key,
    `the value is ${empty} if it is omitted, which is ${violation} than "${key}". Add a default, "nullable: true" or "required: true".`,
  );
}
