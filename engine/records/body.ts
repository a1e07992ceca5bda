import { LRUCache } from 'lru-cache';
import type { ResourceDefinition } from '../definition/index.ts';
import type { FieldIssue } from '../errors.ts';
import { elementIssue, type Field, validator, valueIssue, valueSchema } from '../fields/index.ts';
import { parameterIssue } from '../query/index.ts';
import { type CustomWrite, customIssues, unwritableValues } from './custom-issues.ts';
import { unknownField } from './unknown-names.ts';

const listIssue = (name: string): FieldIssue =>
  parameterIssue(name, 'can be written only in a request that writes a single record of its resource');

/** Returns the names of the lists of children that can be written together with a resource's record. */
export const writableLists = ({ expansion }: Pick<ResourceDefinition, 'expansion'>): readonly string[] =>
  expansion.filter(({ isWritable }) => isWritable === true).map(({ name }) => name);

/** Returns a body without lists of children. @param lists the names of the lists */
export const withoutLists = (body: Body, lists: readonly string[]): Body =>
  Object.fromEntries(Object.entries(body).filter(([key]) => !lists.includes(key)));

/** A JSON object from a request. */
export type Body = Readonly<Record<string, unknown>>;

/** Validates request bodies of a resource. */
export interface BodyRules {
  /**
   * Returns one issue per invalid field, or an empty list if the body is valid. Custom fields do not exist unless passed.
   * @param write the write, which determines whether custom fields can be absent
   */
  readonly validate: (
    body: Body,
    customFields?: readonly Field[],
    write?: CustomWrite,
  ) => readonly FieldIssue[];
  /** Returns issues for unknown and read-only fields, which `Prefer: handling=strict` rejects. */
  readonly unexpected: (body: Body, customFields?: readonly Field[]) => readonly FieldIssue[];
  /** Returns the body without fields that the caller cannot write. */
  readonly accepted: (body: Body) => Body;
}

/** Maximum number of compiled rules per resource. */
const maxRules = 50;
/** Compiled rules by a resource's fields. Most views have the same rules, and compiling them takes milliseconds. */
const rulesByFields = new WeakMap<readonly Field[], LRUCache<string, BodyRules>>();

/**
 * Returns rules for validating request bodies from a resource's writable fields.
 * @param fields the fields that the caller can read
 * @param stored all fields of the resource, some of which the caller might not be able to write
 * @param partial whether required fields can be absent; they must never be null
 * @param lists names of the lists of children that can be written, but not with these bodies
 */
export function bodyRules(
  fields: readonly Field[],
  stored: readonly Field[] = fields,
  partial = false,
  lists: readonly string[] = [],
): BodyRules {
  const cache = rulesByFields.get(stored) ?? new LRUCache<string, BodyRules>({ max: maxRules });
  rulesByFields.set(stored, cache);
  const key = JSON.stringify([partial, lists, fields.map(({ name, readOnly }) => [name, readOnly])]);
  const rules = cache.get(key) ?? compileRules(fields, stored, partial, lists);
  cache.set(key, rules);
  return rules;
}

function compileRules(
  fields: readonly Field[],
  stored: readonly Field[],
  partial: boolean,
  lists: readonly string[],
): BodyRules {
  const writable = fields.filter((field) => !field.readOnly);
  const byName = new Map(writable.map((field) => [field.name, field]));
  const readOnly = new Set(fields.filter((field) => field.readOnly).map((field) => field.name));
  const ignored = stored.filter(({ name, readOnly }) => !readOnly && !byName.has(name));
  const custom = writable.find(({ type }) => type.custom === true);
  const unknownIssue = unknownField([...byName.keys(), ...lists]);
  const validate = validator.compile<Body>({
    type: 'object',
    properties: Object.fromEntries(
      writable.flatMap((field) => (field === custom ? [] : [[field.name, valueSchema(field)]])),
    ),
    required: writable.filter((field) => field.required && !partial).map((field) => field.name),
  });
  return {
    validate: (body, customFields = [], write = 'create') => {
      const moreIssues = [
        ...(custom === undefined ? [] : customIssues(body, customFields, write)),
        ...lists.filter((name) => body[name] !== undefined).map(listIssue),
      ];
      if (validate(body)) return moreIssues;
      const issues = new Map<string, FieldIssue>();
      for (const error of validate.errors ?? []) {
        const [name = '', element] =
          error.keyword === 'required'
            ? [String(error.params.missingProperty)]
            : error.instancePath.slice(1).split('/');
        const field = byName.get(name);
        if (field === undefined || issues.has(name)) continue;
        issues.set(name, element === undefined ? valueIssue(error, field) : elementIssue(field, element));
      }
      return [...issues.values(), ...moreIssues];
    },
    accepted: (body) =>
      ignored.some(({ name }) => body[name] !== undefined)
        ? { ...body, ...Object.fromEntries(ignored.map(({ name }) => [name, undefined])) }
        : body,
    unexpected: (body, customFields = []) => [
      ...Object.keys(body)
        .filter((key) => !byName.has(key) && !lists.includes(key))
        .map((key, index) =>
          readOnly.has(key) ? parameterIssue(key, 'is read-only') : unknownIssue(key, index),
        ),
      ...unwritableValues(body, customFields),
    ],
  };
}
