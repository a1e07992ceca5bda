import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import { decimalText, integerText } from './exact.ts';
import { isStorable } from './string.ts';
import { isDate, parseTimestamp } from './temporal.ts';
import type { FieldOptions, FieldType, Schema } from './type.ts';

/** A field as far as its values are judged by it. */
export interface Judged extends FieldOptions {
  readonly type: FieldType;
  readonly required: boolean;
}

const int32 = 2 ** 31;
/** How the keyword `exact` judges a number that may be too long for a JavaScript number. */
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
})
  .addKeyword({
    keyword: 'exact',
    compile: ({ kind, orNull }: { kind: string; orNull: boolean }) => {
      const judge = exactKinds[kind] as (value: unknown) => boolean;
      return (value: unknown) => (orNull && value === null) || judge(value);
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
    // RE2 runs in linear time, whatever the pattern and the text.
    compile: (pattern: string) => {
      const compiled = RE2JS.compile(pattern);
      return (value: string) => compiled.matcher(value).find();
    },
  })
  .addFormat('rfc3339', (value) => parseTimestamp(value) !== undefined)
  .addFormat('calendarDate', isDate);

/** The JSON Schema that judges one value; null stands for "absent" unless the field is required. */
export function valueSchema(field: Judged): Schema {
  const schema: Record<string, unknown> = { ...(field.type.body?.(field) ?? field.type.json) };
  const orNull = !field.required;
  if (typeof schema.exact === 'string') schema.exact = { kind: schema.exact, orNull };
  if (typeof schema.type === 'string' && orNull) schema.type = [schema.type, 'null'];
  return schema;
}

const sentences: Readonly<Record<string, (field: Judged) => string>> = {
  required: () => 'is required',
  maxLength: (field) => `must be at most ${field.maxLength} characters long`,
  linearPattern: (field) => `must match ${field.pattern}`,
  unicode: () => 'must not contain U+0000 or lone surrogates',
};

/** What is wrong with a value that breaks a keyword of {@link valueSchema}; completes "<field> …". */
export const sentence = (keyword: string, field: Judged): string =>
  sentences[keyword]?.(field) ?? `must be ${field.type.expected}`;

/** What is wrong with a value, or undefined. For single values at boot; bodies have a compiled judge. */
export function judgeValue(field: Judged, value: unknown): string | undefined {
  const validate = validator.compile(valueSchema(field));
  return validate(value) ? undefined : sentence(validate.errors?.[0]?.keyword ?? '', field);
}
