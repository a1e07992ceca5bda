import type { Computation, OperandType } from '../fields/index.ts';

/** Type of an expression's value: a field's type in expressions, or the length of a time span. */
export type ExpressionType = OperandType | 'duration';

/** A checked expression. */
export interface Expression {
  /** The text from the definition. */
  readonly source: string;
  readonly type: ExpressionType;
  /** Names of the stored fields that the expression reads, sorted. */
  readonly fields: readonly string[];
  /** Whether the expression mentions the caller (`me`) or the caller's teams (`my_team`). */
  readonly usesCaller: boolean;
  /** Whether the expression mentions the caller's teams. */
  readonly usesTeam: boolean;
  readonly tree: Term;
}

/**
 * Returns the field that a condition compares with one value for equality, with the value's term, or undefined for other
 * conditions.
 */
export function equality({ tree }: Expression): { readonly field: string; readonly value: Term } | undefined {
  if (tree.kind !== 'comparison' || tree.operator !== '==') return undefined;
  const { left, right } = tree;
  const isValue = ({ kind }: Term) => kind === 'literal' || kind === 'me';
  if (left.kind === 'field' && isValue(right)) return { field: left.name, value: right };
  return right.kind === 'field' && isValue(left) ? { field: right.name, value: left } : undefined;
}

/** Returns the name of the field whose value the expression is, or undefined for other expressions. */
export const copiedField = ({ tree }: Expression): string | undefined =>
  tree.kind === 'field' ? tree.name : undefined;

/** Returns the names of the fields that a condition compares with null, alone or as part of a calculation. */
export const nullTestedFields = ({ tree }: Expression): ReadonlySet<string> =>
  new Set(nullTestsIn(tree).flatMap(({ value }) => fieldsIn(value)));

type NullTest = Extract<Term, { readonly kind: 'null test' }>;

const nullTestsIn = (term: Term): readonly NullTest[] => [
  ...(term.kind === 'null test' ? [term] : []),
  ...operandsOf(term).flatMap(nullTestsIn),
];

const fieldsIn = (term: Term): readonly string[] => {
  if (term.kind === 'computed') return term.computed.fields;
  return term.kind === 'field' ? [term.name] : operandsOf(term).flatMap(fieldsIn);
};

function operandsOf(term: Term): readonly Term[] {
  switch (term.kind) {
    case 'literal':
    case 'field':
    case 'computed':
    case 'me':
    case 'now':
    case 'today':
      return [];
    case 'comparison':
    case 'and':
    case 'or':
    case 'arithmetic':
      return [term.left, term.right];
    case 'null test':
    case 'not':
    case 'negation':
    case 'rounding':
    case 'day shift':
    case 'in team':
      return [term.value];
    case 'in':
      return [term.value, ...term.items];
    case 'shift':
      return [term.time, term.span];
  }
}

/** Operators that compare two values, with their SQL equivalents. */
export const comparisonOperators = {
  '==': '=',
  '!=': '<>',
  '<': '<',
  '<=': '<=',
  '>': '>',
  '>=': '>=',
} as const;
/** Operator that compares two values. */
export type ComparisonOperator = keyof typeof comparisonOperators;

/** Operator of arithmetic. */
export type ArithmeticOperator = '+' | '-' | '*' | '/';

/** Type of a literal. */
export type LiteralType = Extract<
  ExpressionType,
  'text' | 'integer' | 'number' | 'boolean' | 'timestamp' | 'date' | 'duration'
>;

/** A part of a checked expression. Its operands are terms. */
export type Term =
  /** A constant in PostgreSQL's text format, never a JavaScript number, so that values are not rounded. */
  | { readonly kind: 'literal'; readonly type: LiteralType; readonly text: string }
  | { readonly kind: 'field'; readonly type: ExpressionType; readonly name: string }
  /** A computed field. */
  | { readonly kind: 'computed'; readonly type: ExpressionType; readonly computed: Computation }
  | { readonly kind: 'me'; readonly type: 'user' }
  | { readonly kind: 'now'; readonly type: 'timestamp' }
  /** The current date in UTC. */
  | { readonly kind: 'today'; readonly type: 'date' }
  | {
      readonly kind: 'comparison';
      readonly type: 'boolean';
      readonly operator: ComparisonOperator;
      readonly left: Term;
      readonly right: Term;
    }
  | { readonly kind: 'null test'; readonly type: 'boolean'; readonly isNull: boolean; readonly value: Term }
  | { readonly kind: 'in'; readonly type: 'boolean'; readonly value: Term; readonly items: readonly Term[] }
  /** Whether a user shares a team with the caller, or is the caller. */
  | { readonly kind: 'in team'; readonly type: 'boolean'; readonly value: Term }
  | { readonly kind: 'and' | 'or'; readonly type: 'boolean'; readonly left: Term; readonly right: Term }
  | { readonly kind: 'not'; readonly type: 'boolean'; readonly value: Term }
  | {
      readonly kind: 'arithmetic';
      readonly type: 'integer' | 'number';
      readonly operator: ArithmeticOperator;
      readonly left: Term;
      readonly right: Term;
    }
  | { readonly kind: 'negation'; readonly type: 'integer' | 'number'; readonly value: Term }
  /** A number rounded to some decimals, half away from zero. */
  | {
      readonly kind: 'rounding';
      readonly type: 'integer' | 'number';
      readonly value: Term;
      readonly digits: number;
    }
  | {
      readonly kind: 'shift';
      readonly type: 'timestamp';
      readonly operator: '+' | '-';
      readonly time: Term;
      readonly span: Term;
    }
  /** A date moved by a constant number of days. */
  | {
      readonly kind: 'day shift';
      readonly type: 'date';
      readonly operator: '+' | '-';
      readonly value: Term;
      readonly days: number;
    };
