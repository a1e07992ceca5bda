import { compileExpression } from '../expressions/index.ts';
import type { Field } from '../fields/index.ts';
import type { Target } from '../yaml/index.ts';
import type { RawResource, Scope } from './definition.ts';

/** Maximum number of scopes per resource. */
const maxScopes = 20;

/** Names that would be ambiguous in a grant, for example `leads:read:all`. */
export const reservedScopeNames: ReadonlySet<string> = new Set([
  'all',
  'any',
  'none',
  'list',
  'create',
  'read',
  'update',
  'delete',
]);

/** Returns the resource's scopes, and reports invalid conditions at their exact locations. */
export function readScopes(
  { scopes = {} }: RawResource,
  fields: ReadonlyMap<string, Field>,
  report: (target: Target, message: string) => void,
): Scope[] {
  if (Object.keys(scopes).length > maxScopes) {
    report({ path: ['scopes'], key: true }, `a resource can have at most ${maxScopes} scopes`);
  }
  return Object.entries(scopes).flatMap(([name, source]) => {
    const path = ['scopes', name];
    if (reservedScopeNames.has(name)) {
      report({ path, key: true }, `"${name}" would be ambiguous in a grant. Choose another scope name.`);
    }
    const condition = compileExpression(
      source,
      { fields, findIssue, expected: 'boolean', allowsCaller: true, allowsNow: true },
      (offset, message) => report({ path, offset }, message),
    );
    return condition === undefined ? [] : [{ name, condition }];
  });
}

/**
 * Returns the reason a scope cannot read a field, or undefined if it can. Scopes are also evaluated on the change log,
 * and must not reveal hidden fields.
 */
function findIssue({ name, sensitive, group }: Field): string | undefined {
  if (sensitive)
    return `"${name}" is sensitive and therefore missing in the change log, so a scope cannot read it`;
  if (group !== undefined) return `"${name}" belongs to the group "${group}", so a scope cannot read it`;
  return undefined;
}
