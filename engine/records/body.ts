import type { FieldIssue } from '../errors.ts';
import { errorMessage, type Field, validator, valueSchema } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { suggestion } from '../yaml/index.ts';

/**
 * Maximum number and length of names to compare for suggestions. Comparing names takes time, and a request
 * can contain many.
 */
const maxHints = 5;
const maxCompared = 60;

type IssueOf = (name: string, index: number) => FieldIssue;

const issueOf =
  (message: string, names: readonly string[]): IssueOf =>
  (name, index) => {
    const isCompared = index < maxHints && name.length <= maxCompared;
    return parameterIssue(name, message + (isCompared ? suggestion(name, names) : ''));
  };

/** Creates issues for fields rejected by `Prefer: handling=strict`. @param names accepted fields */
export const unknownField = (names: readonly string[]): IssueOf =>
  issueOf('is not a field of this resource', names);

/** Creates issues for parameters rejected by `Prefer: handling=strict`. @param names accepted parameters */
export const unknownParameter = (names: readonly string[]): IssueOf =>
  issueOf('is not a parameter of this operation', names);

/** A JSON object from a request. */
export type Body = Readonly<Record<string, unknown>>;

/** Validates request bodies of a resource. */
export interface BodyRules {
  /** Returns one issue per invalid field, or an empty list if the body is valid. */
  readonly validate: (body: Body) => readonly FieldIssue[];
  /** Returns issues for unknown and read-only fields, which `Prefer: handling=strict` rejects. */
  readonly unexpected: (body: Body) => readonly FieldIssue[];
}

/**
 * Compiles rules for validating request bodies from a resource's writable fields.
 * @param partial whether required fields can be absent; they must never be null
 */
export function bodyRules(fields: readonly Field[], partial = false): BodyRules {
  const writable = fields.filter((field) => !field.readOnly);
  const byName = new Map(writable.map((field) => [field.name, field]));
  const readOnly = new Set(fields.filter((field) => field.readOnly).map((field) => field.name));
  const unknownIssue = unknownField([...byName.keys()]);
  const validate = validator.compile<Body>({
    type: 'object',
    properties: Object.fromEntries(writable.map((field) => [field.name, valueSchema(field)])),
    required: writable.filter((field) => field.required && !partial).map((field) => field.name),
  });
  return {
    validate: (body) => {
      if (validate(body)) return [];
      const issues = new Map<string, FieldIssue>();
      for (const error of validate.errors ?? []) {
        const name =
          error.keyword === 'required' ? String(error.params.missingProperty) : error.instancePath.slice(1);
        const field = byName.get(name);
        if (field === undefined || issues.has(name)) continue;
        issues.set(name, { field: name, message: `${name} ${errorMessage(error.keyword, field)}` });
      }
      return [...issues.values()];
    },
    unexpected: (body) =>
      Object.keys(body)
        .filter((key) => !byName.has(key))
        .map((key, index) =>
          readOnly.has(key) ? parameterIssue(key, 'is read-only') : unknownIssue(key, index),
        ),
  };
}
