import type { ValidateFunction } from 'ajv/dist/2020.js';
import { LRUCache } from 'lru-cache';
import type { FieldIssue } from '../errors.ts';
import {
  customFieldName,
  customName,
  customValuesType,
  ExactNumber,
  type Field,
  rulesOf,
  validator,
  valueIssue,
  valueSchema,
} from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { unknownCustomField } from './unknown-names.ts';

/** Compiled validators of values. Custom fields with the same type and rules share one. */
const validators = new LRUCache<string, ValidateFunction>({ max: 1000 });

function validatorOf(field: Field): ValidateFunction {
  const rules = rulesOf(field).map(({ key, value }) => [key, value]);
  const key = JSON.stringify([field.typeName, field.required, rules]);
  let validate = validators.get(key);
  if (validate === undefined) {
    const schema = valueSchema(field);
    validate = validator.compile(schema);
    // The validator would otherwise keep all schemas that it has compiled.
    validator.removeSchema(schema);
    validators.set(key, validate);
  }
  return validate;
}

/** A write, which determines what happens to custom fields that are not in the body. */
export type CustomWrite = 'create' | 'replace' | 'update';

/** A request's body. */
type Body = Readonly<Record<string, unknown>>;

/** Returns whether a write needs a value for each required custom field. Other writes keep the values that they do not contain. */
const needsAllValues = ({ custom }: Body, write: CustomWrite): boolean =>
  write === 'create' || custom === null || (write === 'replace' && custom !== undefined);

/**
 * Returns one issue per invalid value in a body's `custom` object, per value without a custom field, and per missing value of a
 * required field. Values that the caller cannot write are ignored.
 */
export function customIssues(
  body: Body,
  fields: readonly Field[],
  write: CustomWrite,
): readonly FieldIssue[] {
  const custom = body.custom ?? {};
  if (typeof custom !== 'object' || Array.isArray(custom) || custom instanceof ExactNumber)
    return [parameterIssue(customName, `must be ${customValuesType.expected}`)];
  const values = custom as Body;
  const byName = new Map(fields.map((field) => [field.name, field]));
  const unknownIssue = unknownCustomField([...byName.keys()]);
  const issues = Object.entries(values).flatMap(([key, value], index) => {
    const name = customFieldName(key);
    const field = byName.get(name);
    if (field === undefined) return [unknownIssue(name, index)];
    if (field.readOnly) return [];
    if (field.required && value === null) return [missingIssue(field)];
    const validate = validatorOf(field);
    const [error] = validate(value) ? [] : (validate.errors ?? []);
    return error === undefined ? [] : [valueIssue(error, field)];
  });
  if (!needsAllValues(body, write)) return issues;
  const missing = fields.filter(
    ({ required, custom: own }) => required && own !== undefined && values[own.key] === undefined,
  );
  return [...issues, ...missing.map(missingIssue)];
}

const missingIssue = (field: Field): FieldIssue => valueIssue({ keyword: 'required' }, field);

/** Returns an issue for each value in a body's `custom` object that the caller cannot write. */
export const unwritableValues = ({ custom }: Body, fields: readonly Field[]): readonly FieldIssue[] =>
  fields
    .filter(
      ({ readOnly, custom: own }) =>
        readOnly && own !== undefined && (custom as Body | null | undefined)?.[own.key] !== undefined,
    )
    .map(({ name }) => parameterIssue(name, 'is read-only'));
