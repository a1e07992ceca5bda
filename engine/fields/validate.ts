import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { decimalText, integerText } from './exact-json.ts';
import { isStorable } from './string.ts';
import { isDate, parseTimestamp } from './temporal.ts';
import type { FieldOptions, FieldType, JsonSchema } from './type.ts';

/** The properties of a field that validation depends on. */
interface ValidatedField extends FieldOptions {
  readonly type: FieldType;
  readonly required: boolean;
}

const int32 = 2 ** 31;
/** Validators for the `exact` keyword, for numbers that a JavaScript number might not represent exactly. */
const exactKinds: Readonly<Record<string, (value: unknown) => boolean>> = {
  int32: (value) => typeof value === 'number' && Number.isInteger(value) && value >= -int32 && value < int32,
  int64: (value) => integerText(value) !== undefined,
  decimal: (value) => decimalText(value) !== undefined,
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
    keyword: 'unicode',
    type: 'string',
    validate: (_: boolean, value: string) => isStorable(value),
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
  .addFormat('rfc3339', (value) => parseTimestamp(value) !== undefined)
  .addFormat('calendarDate', isDate);

/** Returns the JSON Schema of a value in a body. Null counts as absent unless the field is required. */
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

/** Returns the error message for a value that violates a keyword of {@link valueSchema}. It completes "<field> …". */
export const errorMessage = (keyword: string, field: ValidatedField): string =>
  messages[keyword]?.(field) ?? `must be ${field.type.expected}`;

/**
 * Returns the error message for an invalid value, or undefined. For use at startup only, because each call compiles a
 * validator.
 */
export function validateValue(field: ValidatedField, value: unknown): string | undefined {
  const validate = validator.compile(valueSchema(field));
  return validate(value) ? undefined : errorMessage(validate.errors?.[0]?.keyword ?? '', field);
}
