import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { type FieldIssue, type IssueReason, reasonKey } from '../errors.ts';
import { isRecordReference } from './alternatives.ts';
import type { DocumentCheck } from './documents.ts';
import { compareNumbers, decimalText, integerText } from './exact-json.ts';
import { type TextFormatName, textFormatOf } from './formats.ts';
import { amountOf, isMoney } from './money.ts';
import { type RuleOptions, rulesOf } from './rules.ts';
import { isStorable } from './string.ts';
import { isDate, isTimestamp } from './temporal.ts';
import type { FieldOptions, FieldType, JsonSchema } from './type.ts';

/** The properties of a field that validation depends on. */
interface ValidatedField extends FieldOptions, RuleOptions {
  readonly name: string;
  readonly type: FieldType;
  readonly message?: string;
  readonly required: boolean;
}

const int32 = 2 ** 31;
/** Validators for the `exact` keyword, for numbers that a JavaScript number might not represent exactly. */
const exactKinds: Readonly<Record<string, (value: unknown) => boolean>> = {
  int32: (value) => typeof value === 'number' && Number.isInteger(value) && value >= -int32 && value < int32,
  int64: (value) => integerText(value) !== undefined,
  decimal: (value) => decimalText(value) !== undefined,
};

/** Returns a function that compares numbers and amounts of money with a limit. It accepts all other values. */
const isCompared =
  (accepts: (sign: number) => boolean, limit: number) =>
  (value: unknown): boolean => {
    const sign = compareNumbers(amountOf(value), limit);
    return sign === undefined || accepts(sign);
  };

/** Ajv with the additional keywords and formats of field schemas. */
export const validator = new Validator({
  allErrors: true,
  allowUnionTypes: true,
  coerceTypes: false,
  useDefaults: false,
  // Disabled to speed up startup. Field types generate the schemas, and strict mode rejects unknown keywords.
  validateSchema: false,
})
  .addKeyword({
    keyword: 'exact',
    compile: ({ kind, orNull }: { kind: string; orNull: boolean }) => {
      const accepts = exactKinds[kind] as (value: unknown) => boolean;
      return (value: unknown) => (orNull && value === null) || accepts(value);
    },
  })
  .addKeyword({
    keyword: 'recordOf',
    compile:
      ({ resources, orNull }: { resources: readonly string[]; orNull: boolean }) =>
      (value: unknown) =>
        (orNull && value === null) || isRecordReference(value, resources),
  })
  .addKeyword({
    keyword: 'money',
    compile:
      ({ currency, orNull }: { currency: string; orNull: boolean }) =>
      (value: unknown) =>
        (orNull && value === null) || isMoney(value, currency),
  })
  .addKeyword({
    keyword: 'document',
    errors: true,
    compile: ({ reasonFor, orNull }: { reasonFor: DocumentCheck; orNull: boolean }) => {
      const validate = (value: unknown): boolean => {
        const reason = orNull && value === null ? undefined : reasonFor(value);
        validate.errors = reason === undefined ? [] : [{ keyword: 'document', message: reason, params: {} }];
        return reason === undefined;
      };
      validate.errors = [] as { keyword: string; message: string; params: object }[];
      return validate;
    },
  })
  .addKeyword({
    keyword: 'unicode',
    type: 'string',
    validate: (_: boolean, value: string) => isStorable(value),
  })
  .addKeyword({ keyword: 'atLeast', compile: (limit: number) => isCompared((sign) => sign >= 0, limit) })
  .addKeyword({ keyword: 'atMost', compile: (limit: number) => isCompared((sign) => sign <= 0, limit) })
  .addKeyword({
    keyword: 'leastLength',
    type: 'string',
    // A character can consist of two UTF-16 code units.
    validate: (limit: number, value: string) => value === '' || [...value].length >= limit,
  })
  .addKeyword({
    keyword: 'textFormat',
    type: 'string',
    compile: (name: TextFormatName) => {
      const { isValid } = textFormatOf(name);
      return (value: string) => value === '' || isValid(value);
    },
  })
  .addKeyword({
    keyword: 'listed',
    type: 'string',
    validate: (accepted: readonly string[], value: string) => accepted.includes(value),
  })
  .addKeyword({
    keyword: 'allListed',
    type: 'array',
    validate: (accepted: readonly string[], values: readonly unknown[]) =>
      values.every((value) => typeof value !== 'string' || accepted.includes(value)),
  })
  .addKeyword({
    keyword: 'linearPattern',
    type: 'string',
    // RE2 matches every pattern in linear time.
    compile: (pattern: string) => {
      const compiled = RE2JS.compile(pattern);
      // An empty string is always valid, so that clients can send a record back unchanged.
      return (value: string) => value === '' || compiled.matcher(value).find();
    },
  })
  .addFormat('rfc3339', isTimestamp)
  .addFormat('calendarDate', isDate);

/** Returns the JSON Schema of a value in a body. Null counts as absent unless the field is required. */
export function valueSchema(field: ValidatedField): JsonSchema {
  const schema: Record<string, unknown> = {
    ...(field.type.body?.(field) ?? field.type.json),
    ...Object.fromEntries(rulesOf(field).map(({ keyword, value }) => [keyword, value])),
  };
  const orNull = !field.required;
  if (typeof schema.exact === 'string') schema.exact = { kind: schema.exact, orNull };
  if (schema.recordOf !== undefined) schema.recordOf = { resources: schema.recordOf, orNull };
  if (schema.money !== undefined) schema.money = { currency: schema.money, orNull };
  if (schema.document !== undefined) schema.document = { reasonFor: schema.document, orNull };
  if (typeof schema.type === 'string' && orNull) schema.type = [schema.type, 'null'];
  return schema;
}

/** The keyword that a value violates, and the validator's message. */
interface KeywordError {
  readonly keyword: string;
  readonly message?: string | undefined;
}

/** Returns the issue about a value that violates a keyword of {@link valueSchema}. */
export const valueIssue = (error: KeywordError, field: ValidatedField): FieldIssue => ({
  field: field.name,
  message: errorMessage(error, field),
  [reasonKey]: issueReason(error, field),
});

function issueReason({ keyword }: KeywordError, field: ValidatedField): IssueReason {
  const rule = rulesOf(field).find((candidate) => candidate.keyword === keyword);
  if (rule !== undefined) return field.message === undefined ? rule.reason : { kind: 'message' };
  if (keyword === 'required') return { kind: 'required' };
  if (keyword === 'unicode') return { kind: 'characters' };
  return { kind: 'expected', expects: field.type.expects };
}

/** Returns the reason that a value violates a keyword of {@link valueSchema}. It completes "<field> …". */
function reasonFor(keyword: string, field: ValidatedField): string {
  const rule = rulesOf(field).find((candidate) => candidate.keyword === keyword);
  if (rule !== undefined) return `must ${rule.must}`;
  if (keyword === 'required') return 'is required';
  if (keyword === 'unicode') return 'must not contain U+0000 or lone surrogates';
  return `must be ${expectedValue(field)}`;
}

/**
 * Returns the error message for a value that violates a keyword of {@link valueSchema}. If the keyword belongs to a rule
 * of the field, the field's `message` replaces the generated one.
 */
const errorMessage = ({ keyword, message }: KeywordError, field: ValidatedField): string => {
  if (keyword === 'document') return `${field.name}${message}`;
  return field.message !== undefined && rulesOf(field).some((rule) => rule.keyword === keyword)
    ? field.message
    : `${field.name} ${reasonFor(keyword, field)}`;
};

const expectedValue = ({ type, required }: ValidatedField): string =>
  (required ? type.expectedIfRequired : undefined) ?? type.expected;

/** Returns the issue about an invalid element of a list. @param position the element's position */
export function elementIssue(
  { name, type }: Pick<ValidatedField, 'name' | 'type'>,
  position: string,
): FieldIssue {
  const field = `${name}[${position}]`;
  return {
    field,
    message: `${field} must be ${type.element?.expected}`,
    [reasonKey]: { kind: 'expected', expects: type.element?.expects ?? type.expects },
  };
}

/**
 * Returns the reason that a value is invalid, which completes "<field> …" or, if it starts with the path of a part of a
 * document, "<field>…", or undefined. For definitions only, because each call compiles a validator.
 */
export function validateValue(field: ValidatedField, value: unknown): string | undefined {
  const schema = valueSchema(field);
  const validate = validator.compile(schema);
  // The validator would otherwise keep all schemas that it has compiled.
  validator.removeSchema(schema);
  if (validate(value)) return undefined;
  const [{ keyword, message } = { keyword: '' }] = validate.errors ?? [];
  return keyword === 'document' ? message?.trimStart() : reasonFor(keyword, field);
}
