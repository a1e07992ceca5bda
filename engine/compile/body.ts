import type { Field } from '../definition/index.ts';
import type { FieldProblem } from '../errors.ts';
import { type Parameter, sentence, validator, valueSchema } from '../fields/index.ts';

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

/** Compiles what a resource's writable fields make of a body. */
export function bodyRules(fields: readonly Field[]): BodyRules {
  const writable = fields.filter((field) => !field.readOnly);
  const byName = new Map(writable.map((field) => [field.name, field]));
  const readOnly = new Set(fields.filter((field) => field.readOnly).map((field) => field.name));
  const validate = validator.compile<Body>({
    type: 'object',
    properties: Object.fromEntries(writable.map((field) => [field.name, valueSchema(field)])),
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
        problems.set(name, { field: name, message: `${name} ${sentence(error.keyword, field)}` });
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
