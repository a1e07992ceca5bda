import { compileExpression, type Expression, expressionSql, noCaller } from '../expressions/index.ts';
import { type Computation, computedSql, type Field, isComputable } from '../fields/index.ts';
import { quote } from '../sql/index.ts';
import { aliasOf } from './former-name.ts';
import { revealedIssue } from './groups.ts';

/** Maximum length of the SQL for a computed field, which contains the expressions of the computed fields that it reads. */
const maxSql = 20_000;

/** Reports an issue in a field's `computed`, at an offset if it is known. */
type ReportAt = (field: Field, offset: number | undefined, message: string) => void;

/**
 * Adds the expressions of computed fields, and reports invalid ones.
 * @param sourceOf returns a field's `computed`
 */
export function withComputed(
  fields: readonly Field[],
  sourceOf: (field: Field) => string | undefined,
  report: ReportAt,
): readonly Field[] {
  const byName = new Map(
    [...fields, ...fields.flatMap((field) => aliasOf(field) ?? [])].map((field) => [field.name, field]),
  );
  const expressions = new Map(
    fields.flatMap((field) => {
      // Other types have already been reported.
      const source = isComputable(field.type) ? sourceOf(field) : undefined;
      const expression = source === undefined ? undefined : compile(field, source, byName, report);
      return expression === undefined ? [] : [[field.name, expression] as const];
    }),
  );
  if (expressions.size === 0) return fields;
  const computations = new Map<string, Computation>();
  const failed = new Set<string>();
  /** Adds a field's computation after those that it reads. @param path the fields that lead to it */
  const add = (field: Field, path: readonly string[]): void => {
    const expression = expressions.get(field.name);
    if (expression === undefined || computations.has(field.name) || failed.has(field.name)) return;
    const start = path.indexOf(field.name);
    if (start !== -1) {
      const cycle = [...path.slice(start), field.name].join(' → ');
      report(field, undefined, `computed fields must not form a cycle: ${cycle}`);
      for (const name of path.slice(start)) failed.add(name);
      return;
    }
    for (const name of expression.fields) {
      const input = byName.get(name);
      if (input !== undefined) add(input, [...path, field.name]);
    }
    const computation = computationOf(field, expression, computations);
    if (expression.fields.some((name) => failed.has(name))) failed.add(field.name);
    else if (computation.sql(quote).length <= maxSql) computations.set(field.name, computation);
    else if (!failed.has(field.name)) {
      failed.add(field.name);
      const message =
        'the expression is too long, together with the expressions of the computed fields that it reads';
      report(field, undefined, message);
    }
  };
  for (const field of fields) add(field, []);
  return fields.map((field) => {
    const computed = computations.get(field.name);
    return computed === undefined ? field : { ...field, computed };
  });
}

/** Checks the expression of a computed field. Returns undefined after reporting an issue. */
function compile(
  field: Field,
  source: string,
  fields: ReadonlyMap<string, Field>,
  report: ReportAt,
): Expression | undefined {
  const { operand = 'number' } = field.type;
  const expression = compileExpression(
    source,
    {
      fields,
      findIssue: (input) =>
        input.name === field.name
          ? `"${input.name}" cannot be computed from itself`
          : revealedIssue(field, input),
      expected: operand,
      allowsCaller: false,
      allowsNow: false,
      isImmutable: true,
    },
    (offset, message) => report(field, offset, message),
  );
  if (expression?.fields.length === 0) {
    report(field, 0, 'the expression must read a field');
    return undefined;
  }
  return expression;
}

/** Returns the computation of a field, in which the computations of other fields replace their names. */
function computationOf(
  field: Field,
  expression: Expression,
  computations: ReadonlyMap<string, Computation>,
): Computation {
  const inputs = expression.fields.flatMap((name) => computations.get(name)?.fields ?? [name]);
  return {
    source: expression.source,
    fields: [...new Set(inputs)].sort(),
    sql: (columnOf) =>
      computedSql(
        field,
        expressionSql(expression, {
          column: (name) => computations.get(name)?.sql(columnOf) ?? columnOf(name),
          ...noCaller,
        }),
      ),
  };
}
