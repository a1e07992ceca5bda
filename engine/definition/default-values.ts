import { compileExpression, type Expression } from '../expressions/index.ts';
import { type Field, refersToUser, typeLabel } from '../fields/index.ts';
import { withArticle } from '../yaml/index.ts';
import type { RawField, ReportIssue } from './definition.ts';
import { revealedIssue } from './groups.ts';

/** Checks that the database can calculate a field's default. */
export function checkDefaultFrom(
  raw: RawField,
  field: Pick<Field, 'type' | 'typeName' | 'readOnly'>,
  report: ReportIssue,
): void {
  if (raw.default_from === undefined) return;
  const issue =
    field.type.operand === undefined || field.type.refers === true
      ? `${withArticle(typeLabel(field))} field cannot have "default_from"`
      : field.readOnly
        ? 'a read-only field cannot have "default_from"'
        : raw.transitions !== undefined
          ? '"default_from" and "transitions" are mutually exclusive: remove one'
          : raw.nullable === true
            ? undefined
            : '"default_from" needs "nullable: true", because the value of the expression can be null';
  if (issue !== undefined) report('default_from', issue);
}

/** Reports an issue at an offset in a field's `default_from`. */
type ReportAt = (field: Field, offset: number, message: string) => void;

/**
 * Returns the expressions for the fields' defaults by field name, and reports invalid ones.
 * @param sourceOf returns a field's `default_from`
 */
export function readDefaults(
  fields: ReadonlyMap<string, Field>,
  sourceOf: (field: Field) => string | undefined,
  report: ReportAt,
): ReadonlyMap<string, Expression> {
  const defaults = new Map<string, Expression>();
  for (const field of fields.values()) {
    const source = field.aliasOf === undefined ? sourceOf(field) : undefined;
    const expected = refersToUser(field) ? 'user' : field.type.operand;
    if (source === undefined || expected === undefined) continue;
    const expression = compileExpression(
      source,
      {
        fields,
        findIssue: (input) => findIssue(field, input, sourceOf(input) !== undefined),
        expected,
        allowsCaller: true,
        allowsNow: true,
      },
      (offset, message) => report(field, offset, message),
    );
    if (expression !== undefined) defaults.set(field.name, expression);
  }
  return defaults;
}

/** Returns the reason a field's default cannot read another field, or undefined if it can. */
function findIssue(field: Field, input: Field, isCalculated: boolean): string | undefined {
  const { name, readOnly } = input;
  if (name === field.name) return `the default of "${name}" cannot read "${name}" itself`;
  if (readOnly) {
    return `"${name}" is read-only, so a default cannot read it. Use "now" for the time of creation and "me" for the caller.`;
  }
  if (isCalculated)
    return `"${name}" has "default_from" itself, so its value is not known yet. Repeat its expression.`;
  return revealedIssue(field, input);
}
