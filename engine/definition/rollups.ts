import { compileExpression, conditionSql, noCaller } from '../expressions/index.ts';
import {
  type Computation,
  canRollUp,
  type Field,
  type Rollup,
  type RollupFunction,
  typeLabel,
} from '../fields/index.ts';
import { suggestionOrList, type Target, withArticle } from '../yaml/index.ts';
import { findReference } from './children.ts';
import type { RawResource, RawRollup } from './definition.ts';
import { functionsOf } from './derived.ts';
import { combinedIssue } from './groups.ts';

/** A resource, before links between resources are checked. */
interface Resource {
  readonly name: string;
  readonly fields: readonly Field[];
  readonly isRetired: boolean;
  readonly parsed: { readonly data: RawResource };
}

/** The resource that has the rollups, and all resources. */
interface Context {
  readonly name: string;
  readonly resources: readonly Resource[];
  /** Returns whether the issues of an invalid resource have already been reported. */
  readonly isBroken: (resource: string) => boolean;
  /** Returns a field's `rollup`. */
  readonly sourceOf: (field: Field) => RawRollup | undefined;
  /** Reports an issue at a path within the field. */
  readonly report: (field: Field, target: Target, message: string) => void;
}

/** Adds the rollups of fields, and reports invalid ones. */
export const withRollups = (fields: readonly Field[], context: Context): readonly Field[] =>
  fields.map((field) => {
    const raw = context.sourceOf(field);
    const rollup = raw && readRollup(field, raw, context);
    return rollup === undefined ? field : { ...field, rollup };
  });

/** Returns a field's rollup, or undefined after reporting an issue. */
function readRollup(
  field: Field,
  raw: RawRollup,
  { name: parent, resources, isBroken, report }: Context,
): Rollup | undefined {
  const reportAt = (key: string, message: string) => report(field, { path: ['rollup', key] }, message);
  if (isBroken(raw.of)) return undefined;
  const child = resources.find(({ name }) => name === raw.of);
  if (child === undefined) {
    const names = resources.map(({ name }) => name);
    reportAt('of', `unknown resource "${raw.of}"${suggestionOrList(raw.of, names)}`);
    return undefined;
  }
  if (child.isRetired) reportAt('of', `${raw.of} is retired. Remove the field.`);
  const reference = findReference(child, raw.by, parent, 'a rollup');
  if (typeof reference === 'string') {
    reportAt('by', reference);
    return undefined;
  }
  const [name = 'count'] = functionsOf(raw);
  const fieldName = name === 'count' ? undefined : raw[name];
  const input = child.fields.find((candidate) => candidate.name === fieldName);
  if (fieldName !== undefined) {
    if (input === undefined) {
      const names = child.fields.filter(isCombinable).map((candidate) => candidate.name);
      reportAt(name, `unknown field "${fieldName}" of ${raw.of}${suggestionOrList(fieldName, names)}`);
      return undefined;
    }
    const issue = findInputIssue(name, input, raw.of);
    if (issue !== undefined) {
      reportAt(name, issue);
      return undefined;
    }
    const types = resultTypes(name, input);
    if (!types.includes(typeOf(field))) {
      const options = types.map((type) => `"type: ${type}"`).join(' or ');
      report(
        field,
        { path: ['type'] },
        `"${name}" of ${withArticle(typeLabel(input))} field needs ${options}`,
      );
    }
  }
  const condition = raw.where === undefined ? undefined : readCondition(field, raw, child, report);
  const read = [reference, ...(input ? [input] : []), ...(condition?.read ?? [])];
  const issue = read.map((source) => combinedIssue(field, source, raw.of)).find((text) => text !== undefined);
  if (issue !== undefined) report(field, { path: ['rollup'], key: true }, issue);
  const isScoped = Object.keys(child.parsed.data.scopes ?? {}).length > 0;
  if (isScoped && field.group === undefined && raw.unscoped !== true)
    report(
      field,
      { path: ['rollup'], key: true },
      `${raw.of} has scopes, but "${field.name}" includes the records outside of them. Add "group" to limit who sees the field, or "unscoped: true" to the rollup.`,
    );
  return {
    function: name,
    ...(input && { field: input }),
    of: raw.of,
    by: raw.by,
    ...(condition && { condition: condition.computation }),
    isStored: raw.stored === true,
  };
}

/** Returns whether a rollup can combine a field's values. */
const isCombinable = ({ type }: Field): boolean => canRollUp(type) && type.order !== undefined;

/** Returns the reason a function cannot be applied to a field, or undefined if it can. */
function findInputIssue(name: RollupFunction, input: Field, resource: string): string | undefined {
  const isNumeric = input.type.calculated !== undefined;
  if (!isCombinable(input) || (!isNumeric && (name === 'sum' || name === 'avg')))
    return `"${input.name}" of ${resource} is ${withArticle(typeLabel(input))} field, to which "${name}" cannot be applied`;
  if (input.currency === 'any')
    return `"${input.name}" of ${resource} contains amounts in different currencies, which cannot be combined`;
  return undefined;
}

/** Returns a field's type as written in YAML. */
const typeOf = ({ typeName, currency }: Field): string =>
  currency === undefined ? typeName : `${typeName}, currency: ${currency}`;

/** Returns the types of fields that can contain the result of a function. */
function resultTypes(name: RollupFunction, input: Field): readonly string[] {
  if (input.type.operand !== 'integer') return [typeOf(input)];
  return name === 'avg' ? ['number'] : ['integer', 'int64', 'number'];
}

/** Checks the condition of a rollup. Returns undefined after reporting an issue. */
function readCondition(
  field: Field,
  { where: source = '', stored = false }: RawRollup,
  { fields }: Resource,
  report: Context['report'],
): { readonly computation: Computation; readonly read: readonly Field[] } | undefined {
  const expression = compileExpression(
    source,
    {
      fields: new Map(fields.map((candidate) => [candidate.name, candidate])),
      expected: 'boolean',
      allowsCaller: false,
      // A stored value would become outdated.
      allowsNow: !stored,
    },
    (offset, message) => report(field, { path: ['rollup', 'where'], offset }, message),
  );
  return (
    expression && {
      computation: {
        source,
        fields: expression.fields,
        sql: (columnOf) => conditionSql(expression, { column: columnOf, ...noCaller }),
      },
      read: fields.filter(({ name }) => expression.fields.includes(name)),
    }
  );
}
