import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { decimalText, integerText } from './exact.ts';
import { isStorable } from './string.ts';
import { isDate, parseTimestamp } from './temporal.ts';
import type { FieldOptions, FieldType, JsonSchema } from './type.ts';

/** What validation needs to know of a field. */
export interface ValidatedField extends FieldOptions {
  readonly type: FieldType;
  readonly required: boolean;
}

const int32 = 2 ** 31;
/** What the keyword `exact` accepts: numbers that may be too long for a JavaScript number. */
const exactKinds: Readonly<Record<string, (value: unknown) => boolean>> = {
  int32: (value) => typeof value === 'number' && Number.isInteger(value) && value >= -int32 && value < int32,
  int64: (value) => integerText(value) !== undefined,
  decimal: (value) => decimalText(value) !== undefined,
};

/** Ajv with what the schemas of fields need beyond JSON Schema. */
export const validator = new Validator({
  allErrors: true,
  allowUnionTypes: true,
  coerceTypes: false,
  useDefaults: false,
  // Schemas are made by field types, and strict mode refuses unknown keywords: the meta-schema would only cost time at start.
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
    keyword: 'unicode',
    type: 'string',
    validate: (_: boolean, value: string) => isStorable(value),
  })
  .addKeyword({
    keyword: 'linearPattern',
    type: 'string',
    // RE2 runs in linear time for every pattern and every text.
    compile: (pattern: string) => {
      const compiled = RE2JS.compile(pattern);
      // The empty value of a text is always valid: a record can be sent back as it was read.
      return (value: string) => value === '' || compiled.matcher(value).find();
    },
  })
  .addFormat('rfc3339', (value) => parseTimestamp(value) !== undefined)
  .addFormat('calendarDate', isDate);

/** The JSON Schema of one value in a body; null means "absent" unless the field is required. */
export function valueSchema(field: ValidatedField): JsonSchema {
  const schema: Record<string, unknown> = { ...(field.type.body?.(field) ?? field.type.json) };
  const orNull = !field.required;
  if (typeof schema.exact === 'string') schema.exact = { kind: schema.exact, orNull };
  if (typeof schema.type === 'string' && orNull) schema.type = [schema.type, 'null'];
  return schema;
}

const messages: Readonly<Record<string, (field: ValidatedField) => string>> = {
  required: () => 'is required',
  maxLength: (field) => `must be at most ${field.maxLength} characters long`,
  linearPattern: (field) => `must match ${field.pattern}`,
  unicode: () => 'must not contain U+0000 or lone surrogates',
};

/** The error message for a value that breaks a keyword of {@link valueSchema}, without the name of the field. */
export const errorMessage = (keyword: string, field: ValidatedField): string =>
  messages[keyword]?.(field) ?? `must be ${field.type.expected}`;

/** The error message for a wrong value, or undefined. For single values at boot; bodies have a compiled validator. */
export function validateValue(field: ValidatedField, value: unknown): string | undefined {
  const validate = validator.compile(valueSchema(field));
  return validate(value) ? undefined : errorMessage(validate.errors?.[0]?.keyword ?? '', field);
}
