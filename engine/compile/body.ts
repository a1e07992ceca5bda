import { Ajv2020 as Validator } from 'ajv/dist/2020.js';
import { RE2JS } from 're2js';
import type { Field } from '../definition/index.ts';
import type { FieldProblem } from '../errors.ts';
import { decimalText, integerText } from '../fields/exact.ts';
import type { Parameter } from '../fields/index.ts';
import { isDate, parseTimestamp } from '../fields/temporal.ts';

/** A JSON object as it was sent. */
export type Body = Readonly<Record<string, unknown>>;

/** What a resource makes of the body of POST and PUT. */
export interface BodyRules {
  /** Every wrong field at once; empty where the body is right. */
  readonly judge: (body: Body) => readonly FieldProblem[];
  /** Parameters for the writable fields' columns, in their order; absent fields take their default. */
  readonly parameters: (body: Body) => Parameter[];
  /** Keys that `Prefer: handling=strict` refuses: unknown and read-only ones. */
  readonly unexpected: (body: Body) => readonly FieldProblem[];
}

const int32 = 2 ** 31;
/** How the keyword `exact` judges a number that may be too long for a JavaScript number. */
const exactKinds: Readonly<Record<string, (value: unknown) => boolean>> = {
  int32: (value) => typeof value === 'number' && Number.isInteger(value) && value >= -int32 && value < int32,
  int64: (value) => integerText(value) !== undefined,
  decimal: (value) => decimalText(value) !== undefined,
};

const ajv = new Validator({ allErrors: true, allowUnionTypes: true, coerceTypes: false, useDefaults: false })
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
    validate: (_: boolean, value: string) => value.isWellFormed() && !value.includes('\0'),
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

/** The JSON Schema that judges one field; null stands for "absent" unless the field is required. */
function fieldSchema(field: Field): object {
  const schema: Record<string, unknown> = { ...(field.type.body?.(field) ?? field.type.json) };
  const orNull = !field.required;
  if (typeof schema.exact === 'string') schema.exact = { kind: schema.exact, orNull };
  if (typeof schema.type === 'string' && orNull) schema.type = [schema.type, 'null'];
  return schema;
}

/** The sentence about a field that broke a keyword. */
const messages: Readonly<Record<string, (field: Field) => string>> = {
  required: () => 'is required',
  maxLength: (field) => `must be at most ${field.maxLength} characters long`,
  linearPattern: (field) => `must match ${field.pattern}`,
  unicode: () => 'must not contain U+0000 or lone surrogates',
};

/** Compiles what a resource's writable fields make of a body. */
export function bodyRules(fields: readonly Field[]): BodyRules {
  const writable = fields.filter((field) => !field.readOnly);
  const byName = new Map(writable.map((field) => [field.name, field]));
  const readOnly = new Set(fields.filter((field) => field.readOnly).map((field) => field.name));
  const validate = ajv.compile<Body>({
    type: 'object',
    properties: Object.fromEntries(writable.map((field) => [field.name, fieldSchema(field)])),
    required: writable.filter((field) => field.required).map((field) => field.name),
  });
  const write = writable.map((field) => ({
    name: field.name,
    absent: absentParameters(field),
    convert: field.type.write ?? (() => []),
  }));

  return {
    judge: (body) => {
      if (validate(body)) return [];
      const problems = new Map<string, FieldProblem>();
      for (const error of validate.errors ?? []) {
        const name =
          error.keyword === 'required' ? String(error.params.missingProperty) : error.instancePath.slice(1);
        const field = byName.get(name);
        if (field === undefined || problems.has(name)) continue;
        const message = messages[error.keyword]?.(field) ?? `must be ${field.type.expected}`;
        problems.set(name, { field: name, message: `${name} ${message}` });
      }
      return [...problems.values()];
    },
    parameters: (body) => {
      const parameters: Parameter[] = [];
      for (const { name, absent, convert } of write) {
        const value = body[name];
        parameters.push(...(value === undefined || value === null ? absent : convert(value)));
      }
      return parameters;
    },
    unexpected: (body) =>
      Object.keys(body)
        .filter((key) => !byName.has(key))
        .map((key) => ({
          field: key,
          message: readOnly.has(key) ? `${key} is read-only` : `${key} is not a field of this resource`,
        })),
  };
}

/** The parameters of a field that a body does not have. */
function absentParameters(field: Field): readonly Parameter[] {
  const columns = field.type.columns?.(field) ?? [];
  return field.default === null ? columns.map(() => null) : (field.type.write?.(field.default) ?? []);
}
