import type { CheckShape, ColumnShape, ForeignKeyShape } from '../../database/index.ts';
import type { IndexShape, TriggerShape } from '../../sql/index.ts';
import { suggestion } from '../../yaml/index.ts';

/** Describes the error in a value from a migration file, or returns undefined if the value is valid. */
export type Rule = (value: unknown, path: string) => string | undefined;

/** Rules for the properties of an object. */
export type Rules<T> = { readonly [Property in keyof T]-?: Rule };

export const text: Rule = (value, path) =>
  typeof value === 'string' ? undefined : `${path} must be a string`;

export const flag: Rule = (value, path) =>
  typeof value === 'boolean' ? undefined : `${path} must be true or false`;

/** Returns a rule for a value that can be absent. */
export const optional =
  (rule: Rule): Rule =>
  (value, path) =>
    value === undefined ? undefined : rule(value, path);

/** A value that is true or absent. */
export const set = optional((value, path) => (value === true ? undefined : `${path} must be true or absent`));

/** Returns a rule for a string that must be one of several values. */
export const oneOf =
  (...names: readonly string[]): Rule =>
  (value, path) =>
    names.some((name) => name === value) ? undefined : `${path} must be ${names.join(' or ')}`;

/** Returns a rule for a list. */
export const listOf =
  (rule: Rule): Rule =>
  (value, path) =>
    Array.isArray(value)
      ? firstProblem(value.map((item, index) => rule(item, `${path}[${index}]`)))
      : `${path} must be a list`;

/** Returns a rule for an object with arbitrary keys. */
export const mapOf =
  (rule: Rule): Rule =>
  (value, path) =>
    isObject(value)
      ? firstProblem(Object.entries(value).map(([name, item]) => rule(item, `${path}.${name}`)))
      : `${path} must be an object`;

/** Returns a rule for an object with known properties. */
export const propertiesOf =
  (rules: Readonly<Record<string, Rule>>): Rule =>
  (value, path) => {
    if (!isObject(value)) return `${path} must be an object`;
    const names = Object.keys(rules);
    const unknown = Object.keys(value).find((name) => !names.includes(name));
    if (unknown !== undefined) return `${path}.${unknown} is unknown${suggestion(unknown, names)}`;
    return firstProblem(Object.entries(rules).map(([name, rule]) => rule(value[name], `${path}.${name}`)));
  };

/** Returns a rule for a change that must be of one of several kinds. */
export const changeAmong =
  (kinds: Readonly<Record<string, { readonly rules: Readonly<Record<string, Rule>> }>>): Rule =>
  (value, path) => {
    if (!isObject(value)) return `${path} must be an object`;
    const name = String(value.kind);
    if (Object.hasOwn(kinds, name)) return propertiesOf({ kind: text, ...kinds[name]?.rules })(value, path);
    return `${path}: "${name}" is not a kind of change${suggestion(name, Object.keys(kinds))}`;
  };

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const firstProblem = (problems: readonly (string | undefined)[]): string | undefined =>
  problems.find((problem) => problem !== undefined);

const names = listOf(text);

export const columnRule = propertiesOf({
  type: text,
  collation: optional(text),
  nullable: set,
  default: optional(text),
  identity: set,
} satisfies Rules<ColumnShape>);

export const indexRule = propertiesOf({
  keys: names,
  kind: optional(oneOf('primary key', 'unique constraint', 'unique')),
  method: optional(oneOf('gin')),
  where: optional(text),
} satisfies Rules<IndexShape>);

export const foreignKeyRule = propertiesOf({
  columns: names,
  to: text,
  toColumns: names,
  onDelete: optional(text),
} satisfies Rules<ForeignKeyShape>);

export const checkRule = propertiesOf({ condition: text } satisfies Rules<CheckShape>);

export const triggerRule = propertiesOf({
  timing: text,
  events: names,
  body: text,
  forEach: optional(oneOf('statement')),
} satisfies Rules<TriggerShape>);
