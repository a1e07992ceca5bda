import { literal } from '../sql/index.ts';
import { comparisonOperators, type Expression, type LiteralType, type Term } from './expression.ts';

/** SQL expressions for the caller. */
interface CallerColumns {
  /** Returns the caller's user ID as a nullable bigint. */
  readonly me: () => string;
  /** Returns an array of the IDs of the caller and the members of the caller's teams. Without a user, it contains only null. */
  readonly team: () => string;
}

/** SQL expressions for expressions that cannot mention the caller. */
export const noCaller: CallerColumns = { me: () => 'null', team: () => 'array[null]::bigint[]' };

/** SQL expressions for the names in an expression. Each must be usable as an operand. */
export interface ExpressionColumns extends CallerColumns {
  /** Returns a field's stored value, with its PostgreSQL type. */
  readonly column: (field: string) => string;
}

/** PostgreSQL types of literals. */
const literalTypes: Readonly<Record<LiteralType, string>> = {
  text: 'text',
  integer: 'bigint',
  number: 'numeric',
  boolean: 'boolean',
  timestamp: 'timestamptz',
  date: 'date',
  duration: 'interval',
};

/** Renders an expression as an SQL value. A condition is true or false, never null. */
export const expressionSql = (expression: Expression, columns: ExpressionColumns): string =>
  expression.type === 'boolean'
    ? `coalesce(${render(expression.tree, columns)}, false)`
    : render(expression.tree, columns);

/**
 * Renders a condition for WHERE, ON, FILTER or CASE WHEN, which treat null as false. Unlike {@link expressionSql}, it
 * can use an index, but it must not be negated.
 */
export const conditionSql = ({ tree }: Expression, columns: ExpressionColumns): string =>
  render(tree, columns);

/**
 * Renders a term. A comparison with null is null, and SQL's three-valued logic propagates it, so that a condition is
 * true only if it is true whatever the missing values are. Therefore, neither a comparison with null nor its negation
 * is ever true.
 */
function render(term: Term, columns: ExpressionColumns): string {
  const sql = (operand: Term): string => render(operand, columns);
  switch (term.kind) {
    case 'literal':
      return term.type === 'boolean' ? term.text : `${literal(term.text)}::${literalTypes[term.type]}`;
    case 'field':
      return columns.column(term.name);
    case 'computed':
      return term.computed.sql(columns.column);
    case 'me':
      return columns.me();
    case 'now':
      return 'now()';
    case 'today':
      return "(now() at time zone 'UTC')::date";
    case 'comparison':
      return `(${comparable(term.left, columns)} ${comparisonOperators[term.operator]} ${sql(term.right)})`;
    case 'null test':
      return `(${sql(term.value)} is ${term.isNull ? '' : 'not '}null)`;
    case 'in':
      return term.items.length === 0
        ? 'false'
        : `(${comparable(term.value, columns)} in (${term.items.map(sql).join(', ')}))`;
    case 'in team':
      return `(${sql(term.value)} = any(${columns.team()}))`;
    case 'and':
    case 'or':
      return `(${sql(term.left)} ${term.kind} ${sql(term.right)})`;
    case 'not':
      return `(not ${sql(term.value)})`;
    case 'arithmetic': {
      const [left, right] = [numeric(term.left, columns), numeric(term.right, columns)];
      return term.operator === '/' ? quotient(left, right) : `(${left} ${term.operator} ${right})`;
    }
    case 'negation':
      return `(- ${numeric(term.value, columns)})`;
    case 'rounding':
      return `round(${numeric(term.value, columns)}, ${term.digits})`;
    case 'day shift':
      return `(${sql(term.value)} ${term.operator} (${term.days}))`;
    case 'shift':
      return `(${sql(term.time)} ${term.operator} ${sql(term.span)})`;
  }
}

/** Renders the left operand of a comparison. Text is compared by code point on every server. */
const comparable = (term: Term, columns: ExpressionColumns): string =>
  term.type === 'text' ? `${render(term, columns)} collate "C"` : render(term, columns);

/** Renders an operand of arithmetic. Integers become decimals, which cannot overflow. */
const numeric = (term: Term, columns: ExpressionColumns): string =>
  term.type === 'integer' && !['arithmetic', 'negation', 'rounding'].includes(term.kind)
    ? `${render(term, columns)}::numeric`
    : render(term, columns);

/**
 * Returns a quotient rounded to 16 decimals, or null if the divisor is zero. PostgreSQL's own division keeps fewer
 * decimals of large quotients.
 */
const quotient = (dividend: string, divisor: string): string =>
  `round(div(${dividend} * 1e17, nullif(${divisor}, 0)) * 1e-17, 16)`;
