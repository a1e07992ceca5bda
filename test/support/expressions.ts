// Test support: fields of every type for expressions, with their SQL columns.

import { checkSources } from '../../engine/definition/check-sources.ts';
import {
  compileExpression,
  type Expression,
  type ExpressionOptions,
} from '../../engine/expressions/index.ts';
import type { Field, FieldTypeName } from '../../engine/fields/index.ts';

/** Field types, keyed by field name. */
const types = {
  title: 'string',
  note: 'text',
  score: 'integer',
  big: 'int64',
  amount: 'number',
  active: 'boolean',
  seen_at: 'timestamp',
  due_on: 'date',
} as const satisfies Readonly<Record<string, FieldTypeName>>;

const [definition] = checkSources([
  {
    file: 'things.yaml',
    text: `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  owner_id: { type: int64, read_only: true, set: creator }
  thing_id: { type: reference, to: things, nullable: true }
  thing_title: { type: joined, through: thing_id, show: [title] }
  phone: { type: string, renamed_from: tel, alias: true, deprecated: 2026-01-01, sunset: 2027-01-01 }
  fax: { type: string, renamed_from: telefax }
  doubled: { type: number, computed: score * 2 }
  is_high: { type: boolean, computed: score > 5 }
${Object.entries(types)
  .map(([name, type]) => `  ${name}: { type: ${type}, nullable: true }\n`)
  .join('')}`,
  },
]);

/** The fields of a resource with every type, by name. */
export const fields: ReadonlyMap<string, Field> = new Map(
  (definition?.fields ?? []).map((field) => [field.name, field]),
);

/** An issue and its offset in the source. */
export type Issue = readonly [offset: number, message: string];

/** Compiles an expression and returns it with its issues. */
export function compile(
  source: string,
  options: Partial<ExpressionOptions> = {},
): { readonly expression: Expression | undefined; readonly issues: readonly Issue[] } {
  const issues: Issue[] = [];
  const expression = compileExpression(
    source,
    { fields, expected: 'boolean', allowsCaller: true, allowsNow: true, ...options },
    (offset, message) => issues.push([offset, message]),
  );
  return { expression, issues };
}
