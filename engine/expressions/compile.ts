import { type Field, isStorable, refersToUser, typeLabel } from '../fields/index.ts';
import { suggestionOrList, withArticle } from '../yaml/index.ts';
import type {
  ArithmeticOperator,
  ComparisonOperator,
  Expression,
  ExpressionType,
  LiteralType,
  Term,
} from './expression.ts';
import { dateText, daysOf, durationText, isDecimal, isInt64, maxHours, timestampText } from './literals.ts';
import { type Node, parse, type Report } from './parse.ts';

/** Requirements for an expression. */
export interface ExpressionOptions {
  /** Fields of the record, by name. */
  readonly fields: ReadonlyMap<string, Field>;
  /** Returns the reason the expression cannot read a field, or undefined if it can. Default: it can read all fields. */
  readonly findIssue?: (field: Field) => string | undefined;
  /** Type of the expression's value. An integer can be used as a number. */
  readonly expected: ExpressionType;
  /** Whether the expression can mention the caller (`me`) and the caller's teams (`my_team`). */
  readonly allowsCaller: boolean;
  /** Whether the expression can mention the current time (`now`) and date (`today`). */
  readonly allowsNow: boolean;
  /** Whether the value must be suitable for an index, which excludes timestamps moved by a duration. */
  readonly isImmutable?: true;
}

/** Name for the caller and the members of the caller's teams. */
const teamName = 'my_team';

/** Maximum number of operators, fields and literals, not counting literals in lists. */
const maxNodes = 100;

/**
 * Parses an expression and checks its types.
 * @param report called for each issue with its offset in the source
 * @returns undefined if there is an issue
 */
export function compileExpression(
  source: string,
  options: ExpressionOptions,
  report: Report,
): Expression | undefined {
  const node = parse(source, report);
  if (node === undefined) return undefined;
  if (size(node) > maxNodes) {
    report(0, `an expression can have at most ${maxNodes} operators and values`);
    return undefined;
  }
  let hasIssues = false;
  const state: Check = {
    ...options,
    source,
    fieldNames: new Set(),
    mentions: new Set(),
    fail: ({ start }, message) => {
      hasIssues = true;
      report(start, message);
      return undefined;
    },
  };
  const tree = check(state, node);
  if (tree === undefined || hasIssues) return undefined;
  if (!converts(tree.type, options.expected)) {
    const hint = options.expected === 'boolean' ? '. For example: assignee_id == me.' : '';
    report(
      node.start,
      `the expression must be ${phrases[options.expected]}, but is ${phrases[tree.type]}${hint}`,
    );
    return undefined;
  }
  return Object.freeze({
    source,
    type: options.expected,
    fields: [...state.fieldNames].sort(),
    usesCaller: state.mentions.has('me') || state.mentions.has(teamName),
    usesTeam: state.mentions.has(teamName),
    tree,
  });
}

/** Each type with its article. */
const phrases: Readonly<Record<ExpressionType, string>> = {
  text: 'text',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  timestamp: 'a timestamp',
  date: 'a date',
  duration: 'a duration',
  reference: "a record's ID",
  user: "a user's ID",
};

const isNumeric = (type: ExpressionType): type is 'integer' | 'number' =>
  type === 'integer' || type === 'number';
/** Returns whether a value can be used where another type is expected. */
const converts = (from: ExpressionType, to: ExpressionType): boolean =>
  from === to || (from === 'integer' && to === 'number');
/** Returns whether the type's values are IDs. */
const isId = (type: ExpressionType): boolean => type === 'reference' || type === 'user';

/** Types whose values have an order. */
const ordered: ReadonlySet<ExpressionType> = new Set(['text', 'integer', 'number', 'timestamp', 'date']);

/** Returns whether two values can be equal. */
const areComparable = (a: Term, b: Term): boolean =>
  a.type !== 'duration' &&
  (a.type === b.type ||
    (isNumeric(a.type) && isNumeric(b.type)) ||
    // An ID can be compared with an integer, but not with the ID of something else.
    (isId(a.type) && b.type === 'integer') ||
    (isId(b.type) && a.type === 'integer'));

/** Functions that create a literal from text, with an example. */
const literalFunctions: Readonly<
  Record<
    string,
    {
      readonly type: LiteralType;
      readonly parse: (text: string) => string | undefined;
      readonly help: string;
    }
  >
> = {
  timestamp: {
    type: 'timestamp',
    parse: timestampText,
    help: 'an RFC 3339 timestamp, for example timestamp("2026-03-01T09:30:00Z")',
  },
  date: { type: 'date', parse: dateText, help: 'a date, for example date("2026-03-01")' },
  duration: {
    type: 'duration',
    parse: durationText,
    help: `hours, minutes and seconds of at most ${maxHours} hours, for example duration("24h") or duration("1h30m")`,
  },
};

/** Parts of CEL that are not supported, with the reason or an alternative. */
const unsupported = {
  '.': 'fields of other records cannot be read in an expression. Repeat the value in a field of this resource.',
  '.?': 'fields of other records cannot be read in an expression. Repeat the value in a field of this resource.',
  '[]': 'items cannot be selected in an expression',
  '[?]': 'items cannot be selected in an expression',
  '?:': 'conditional expressions are not supported. Combine conditions with && and ||.',
  '%': 'remainders are not supported',
  map: 'maps are not supported in expressions',
  rcall: 'functions of values are not supported in expressions',
} as const satisfies Readonly<Partial<Record<Node['op'], string>>>;

/** Alternative to subtracting one timestamp from another. */
const timeSpanHint =
  'Compare one timestamp with the other, moved by a duration, for example ends_at <= starts_at + duration("4h").';

const isNull = (node: Node): boolean => node.op === 'value' && node.args === null;

/** State of checking one expression. */
interface Check extends ExpressionOptions {
  readonly source: string;
  readonly fieldNames: Set<string>;
  readonly mentions: Set<'me' | typeof teamName>;
  /** Reports an issue at a node. */
  readonly fail: (node: Node, message: string) => undefined;
}

/** Returns the operands of a node, without the literals of a list. */
function operandsOf(node: Node): readonly Node[] {
  switch (node.op) {
    case 'value':
    case 'id':
      return [];
    case '!_':
    case '-_':
      return [node.args];
    case 'list':
      return node.args.filter(({ op }) => op !== 'value');
    case 'map':
      return node.args.flat();
    case '.':
    case '.?':
      return [node.args[0]];
    case 'call':
      return node.args[1];
    case 'rcall':
      return [node.args[1], ...node.args[2]];
    default:
      return node.args;
  }
}

/** Returns the number of operators and values in an expression, not counting literals in lists. */
function size(root: Node): number {
  const queue = [root];
  for (const node of queue) queue.push(...operandsOf(node));
  return queue.length;
}

/** Returns a node's text for a message, shortened to 40 characters. */
function textOf({ source }: Check, { start, end }: Node): string {
  const text = source.slice(start, end);
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
}

/** Checks a node. Returns undefined after reporting an issue. */
function check(state: Check, node: Node): Term | undefined {
  switch (node.op) {
    case 'value':
      return literal(state, node, node.args);
    case 'id':
      return name(state, node, node.args);
    case '.':
      return amount(state, node);
    case 'call':
      return call(state, node, node.args);
    case 'in':
      return membership(state, node.args);
    case '&&':
    case '||': {
      const [left, right] = pair(state, node.args, condition);
      return left && right && { kind: node.op === '&&' ? 'and' : 'or', type: 'boolean', left, right };
    }
    case '!_': {
      const value = condition(state, node.args);
      return value && { kind: 'not', type: 'boolean', value };
    }
    case '-_':
      return negative(state, node, node.args);
    case 'list':
      return state.fail(node, 'a list can only follow "in"');
    case '==':
    case '!=':
    case '<':
    case '<=':
    case '>':
    case '>=':
      return comparison(state, node, node.op, node.args);
    case '+':
    case '-':
    case '*':
    case '/':
      return arithmetic(state, node, node.op, node.args);
    default:
      return state.fail(node, unsupported[node.op]);
  }
}

/** Checks two nodes, so that the issues in both are reported. */
const pair = (
  state: Check,
  [left, right]: readonly [Node, Node],
  checkNode: (state: Check, node: Node) => Term | undefined = check,
) => [checkNode(state, left), checkNode(state, right)] as const;

/** Checks a node that must be true or false. */
function condition(state: Check, node: Node): Term | undefined {
  const term = check(state, node);
  if (term === undefined || term.type === 'boolean') return term;
  return state.fail(
    node,
    `${describe(state, node, term)} must be a condition, for example ${textOf(state, node)} != null`,
  );
}

/** Describes a value and its type. */
const describe = (state: Check, node: Node, { type }: Term): string =>
  `${textOf(state, node)} (${phrases[type]})`;

function literal(state: Check, node: Node, value: unknown): Term | undefined {
  const text = state.source.slice(node.start, node.end);
  switch (typeof value) {
    case 'string':
      return isStorable(value)
        ? { kind: 'literal', type: 'text', text: value }
        : state.fail(node, 'text cannot contain U+0000');
    case 'bigint':
      return integer(state, node, value);
    case 'number':
      return isDecimal(text)
        ? { kind: 'literal', type: 'number', text }
        : state.fail(node, 'write the number without an exponent and with at most 100 digits');
    case 'boolean':
      return { kind: 'literal', type: 'boolean', text: String(value) };
    default:
      return value === null
        ? state.fail(node, 'null can only be compared with == or !=, for example assignee_id != null')
        : state.fail(node, `${text} is not supported. Write a text in quotes or a number.`);
  }
}

const integer = (state: Check, node: Node, value: bigint): Term | undefined =>
  isInt64(value)
    ? { kind: 'literal', type: 'integer', text: String(value) }
    : state.fail(node, `${textOf(state, node)} is not a 64-bit integer`);

const teamExample = `assignee_id in ${teamName}`;

/** Checks a name: a field, `me` or `now`. */
function name(state: Check, node: Node, word: string): Term | undefined {
  if (word === 'me') {
    state.mentions.add('me');
    return state.allowsCaller
      ? { kind: 'me', type: 'user' }
      : state.fail(node, 'the value cannot depend on the caller ("me")');
  }
  if (word === 'now') {
    return state.allowsNow
      ? { kind: 'now', type: 'timestamp' }
      : state.fail(node, 'the value cannot depend on the current time ("now")');
  }
  const field = state.fields.get(word);
  // Definitions can have a field with this name.
  if (word === 'today' && field === undefined) {
    return state.allowsNow
      ? { kind: 'today', type: 'date' }
      : state.fail(node, 'the value cannot depend on the current date ("today")');
  }
  if (word === teamName && field === undefined)
    return state.fail(node, `"${teamName}" can only follow "in", for example ${teamExample}`);
  if (field === undefined) return state.fail(node, unknownField(state, word));
  if (field.aliasOf !== undefined) {
    return state.fail(node, `"${word}" is now called "${field.aliasOf.name}". Use the current name.`);
  }
  const type = refersToUser(field) ? 'user' : field.type.operand;
  const issue = hasAmount(field)
    ? `"${word}" is a money field. Write ${word}.amount.`
    : type === undefined
      ? unreadable(field)
      : state.findIssue?.(field);
  if (type === undefined || issue !== undefined) return state.fail(node, issue ?? '');
  return fieldTerm(state, field, type);
}

/** Returns whether a field is an amount of money that an expression can read. Rollups are not. */
const hasAmount = ({ type }: Field): boolean => type.priced === true && type.calculated !== undefined;

const unreadable = (field: Field): string =>
  `"${field.name}" is ${withArticle(typeLabel(field))} field, which an expression cannot read`;

/** Returns the term for a field's value. */
function fieldTerm(state: Check, { name, computed }: Field, type: ExpressionType): Term {
  for (const input of computed?.fields ?? [name]) state.fieldNames.add(input);
  return computed === undefined ? { kind: 'field', type, name } : { kind: 'computed', type, computed };
}

/** Checks the amount of a money field, for example `price.amount`. */
function amount(state: Check, node: Extract<Node, { readonly op: '.' }>): Term | undefined {
  const [owner, member] = node.args;
  const field = owner.op === 'id' && member === 'amount' ? state.fields.get(owner.args) : undefined;
  if (field?.type.priced !== true || field.aliasOf !== undefined) return state.fail(node, unsupported['.']);
  const issue = hasAmount(field) ? state.findIssue?.(field) : unreadable(field);
  if (issue !== undefined) return state.fail(owner, issue);
  // The column named after the field contains the amount.
  return fieldTerm(state, field, 'number');
}

function unknownField({ fields, allowsCaller, allowsNow }: Check, word: string): string {
  const current = [...fields.values()].find(({ renamedFrom }) => renamedFrom === word);
  if (current !== undefined) return `"${word}" is now called "${current.name}". Use the current name.`;
  const names = [...fields.keys(), ...(allowsCaller ? ['me'] : []), ...(allowsNow ? ['now', 'today'] : [])];
  return `unknown field "${word}"${suggestionOrList(word, names)}`;
}

function call(state: Check, node: Node, [word, args]: readonly [string, readonly Node[]]): Term | undefined {
  const [argument] = args;
  if (word === 'has') {
    const value = argument === undefined ? 'assignee_id' : textOf(state, argument);
    return state.fail(node, `write "${value} != null" instead of has`);
  }
  if (word === 'me' || word === 'now' || word === 'today' || word === teamName)
    return state.fail(node, `write "${word}" without parentheses`);
  if (word === roundName) return rounding(state, node, args);
  const literalFunction = Object.hasOwn(literalFunctions, word) ? literalFunctions[word] : undefined;
  if (literalFunction === undefined) {
    const hint = suggestionOrList(word, [...Object.keys(literalFunctions), roundName]);
    return state.fail(node, `unknown function "${word}"${hint}`);
  }
  const text = args.length === 1 && argument?.op === 'value' ? argument.args : undefined;
  const value = typeof text === 'string' ? literalFunction.parse(text) : undefined;
  return value === undefined
    ? state.fail(argument ?? node, `${word} needs ${literalFunction.help}`)
    : { kind: 'literal', type: literalFunction.type, text: value };
}

/** Name of the function that rounds a number, and its maximum number of decimals. */
const [roundName, maxDigits] = ['round', 10];

/** Checks the rounding of a number to a constant number of decimals. */
function rounding(state: Check, node: Node, args: readonly Node[]): Term | undefined {
  const [valueNode, digitsNode] = args;
  if (valueNode === undefined || digitsNode === undefined || args.length > 2)
    return state.fail(node, 'round needs a number and its decimals, for example round(amount, 2)');
  const value = check(state, valueNode);
  const digits = digitsNode.op === 'value' && typeof digitsNode.args === 'bigint' ? digitsNode.args : -1n;
  if (digits < 0n || digits > maxDigits)
    return state.fail(digitsNode, `the decimals must be an integer from 0 to ${maxDigits}`);
  if (value === undefined) return undefined;
  if (!isNumeric(value.type))
    return state.fail(valueNode, `${describe(state, valueNode, value)} cannot be rounded`);
  const type = digits === 0n ? 'integer' : value.type;
  return { kind: 'rounding', type, value, digits: Number(digits) };
}

function comparison(
  state: Check,
  node: Node,
  operator: ComparisonOperator,
  operands: readonly [Node, Node],
): Term | undefined {
  if ((operator === '==' || operator === '!=') && operands.some(isNull)) {
    return nullTest(state, node, operator, operands);
  }
  const [leftNode, rightNode] = operands;
  const unquoted = unquotedValue(state, leftNode, rightNode) ?? unquotedValue(state, rightNode, leftNode);
  if (unquoted !== undefined)
    return state.fail(
      unquoted.node,
      `unknown field "${unquoted.value}". Write "${unquoted.value}" in quotes.`,
    );
  const [left, right] = pair(state, operands);
  if (left === undefined || right === undefined) return undefined;
  if (!areComparable(left, right)) {
    return state.fail(
      node,
      incomparable(describe(state, leftNode, left), describe(state, rightNode, right), [left, right]),
    );
  }
  const unknownValue = unknownValueIssue(state, left, right) ?? unknownValueIssue(state, right, left);
  if (unknownValue !== undefined)
    return state.fail(left.kind === 'literal' ? leftNode : rightNode, unknownValue);
  if (operator !== '==' && operator !== '!=' && !(ordered.has(left.type) && ordered.has(right.type))) {
    const unordered = ordered.has(left.type) ? rightNode : leftNode;
    const term = ordered.has(left.type) ? right : left;
    return state.fail(
      node,
      `${describe(state, unordered, term)} has no order and can only be compared with == or !=`,
    );
  }
  return { kind: 'comparison', type: 'boolean', operator, left, right };
}

/** Returns a name that is not a field, but a listed value of the field with which it is compared, or undefined. */
function unquotedValue(
  { fields }: Check,
  node: Node,
  other: Node,
): { readonly node: Node; readonly value: string } | undefined {
  if (node.op !== 'id' || other.op !== 'id' || fields.has(node.args)) return undefined;
  const isValue = fields.get(other.args)?.values?.list.includes(node.args) === true;
  return isValue ? { node, value: node.args } : undefined;
}

/** Returns the reason that a field with closed values never has a literal's value, or undefined if it can. */
function unknownValueIssue({ fields }: Check, value: Term, literal: Term): string | undefined {
  if (value.kind !== 'field' || literal.kind !== 'literal' || literal.type !== 'text') return undefined;
  const accepted = fields.get(value.name)?.values?.accepted;
  if (accepted === undefined || accepted.includes(literal.text)) return undefined;
  return `"${literal.text}" is not a value of "${value.name}"${suggestionOrList(literal.text, accepted)}`;
}

/** Returns the message for two values whose types cannot be compared. */
function incomparable(first: string, second: string, [left, right]: readonly [Term, Term]): string {
  return left.type === 'duration' && right.type === 'duration'
    ? 'durations cannot be compared. Add the duration to a timestamp, or subtract it.'
    : `${first} cannot be compared with ${second}${literalHint(left, right)}`;
}

/** Suggests another notation for a literal whose type does not match the other operand. */
function literalHint(left: Term, right: Term): string {
  for (const [term, { type }] of [
    [left, right],
    [right, left],
  ] as const) {
    if (term.kind !== 'literal') continue;
    if (type === 'text' && term.type !== 'text') return `. Write "${term.text}" in quotes.`;
    if (term.type !== 'text') continue;
    if (isNumeric(type) && /^-?\d{1,18}(\.\d+)?$/.test(term.text))
      return `. Write ${term.text} without quotes.`;
    if (type === 'boolean' && /^(true|false)$/.test(term.text)) return `. Write ${term.text} without quotes.`;
    if (type === 'timestamp' || type === 'date') return `. Write ${type}("${term.text}").`;
  }
  return '';
}

/** Checks a comparison with the literal null, which tests whether a field has a value. */
function nullTest(
  state: Check,
  node: Node,
  operator: '==' | '!=',
  [left, right]: readonly [Node, Node],
): Term | undefined {
  const valueNode = isNull(left) ? right : left;
  if (isNull(valueNode)) return state.fail(node, 'null cannot be compared with null');
  const value = check(state, valueNode);
  if (value === undefined) return undefined;
  if (value.kind === 'me') {
    return state.fail(
      node,
      '"me" cannot be compared with null, because it matches no record if there is no user',
    );
  }
  if (
    value.kind === 'literal' ||
    value.kind === 'now' ||
    value.kind === 'today' ||
    (value.type === 'boolean' && value.kind !== 'field')
  ) {
    return state.fail(node, `${textOf(state, valueNode)} is never null`);
  }
  return { kind: 'null test', type: 'boolean', isNull: operator === '==', value };
}

function membership(state: Check, [valueNode, list]: readonly [Node, Node]): Term | undefined {
  const value = check(state, valueNode);
  if (list.op === 'id' && list.args === teamName) return teamMembership(state, valueNode, value, list);
  if (list.op !== 'list') {
    const team = value?.type === 'user' && state.allowsCaller ? `, or by ${teamName}` : '';
    return state.fail(list, `"in" must be followed by a list, for example ["New", "Won"]${team}`);
  }
  const items = list.args.map((item) => {
    if (isNull(item))
      return state.fail(item, `a list cannot contain null. Add "|| ${textOf(state, valueNode)} == null".`);
    const term = check(state, item);
    const unknownValue = value && term && unknownValueIssue(state, value, term);
    if (unknownValue !== undefined) return state.fail(item, unknownValue);
    if (value === undefined || term === undefined || areComparable(value, term)) return term;
    return state.fail(
      item,
      incomparable(describe(state, item, term), describe(state, valueNode, value), [value, term]),
    );
  });
  const terms = items.filter((item) => item !== undefined);
  if (value === undefined || terms.length < items.length) return undefined;
  return { kind: 'in', type: 'boolean', value, items: terms };
}

/** Checks whether a user is in one of the caller's teams. */
function teamMembership(
  state: Check,
  valueNode: Node,
  value: Term | undefined,
  team: Node,
): Term | undefined {
  state.mentions.add(teamName);
  if (!state.allowsCaller) return state.fail(team, `the value cannot depend on the caller ("${teamName}")`);
  if (value === undefined) return undefined;
  if (value.type !== 'user') {
    const found = describe(state, valueNode, value);
    return state.fail(valueNode, `${found} cannot be in "${teamName}", which contains users`);
  }
  return { kind: 'in team', type: 'boolean', value };
}

function negative(state: Check, node: Node, operand: Node): Term | undefined {
  if (operand.op === 'value' && typeof operand.args === 'bigint') return integer(state, node, -operand.args);
  const value = check(state, operand);
  if (value === undefined) return undefined;
  if (!isNumeric(value.type)) {
    return state.fail(node, `"-" cannot be applied to ${describe(state, operand, value)}`);
  }
  if (value.kind === 'literal' && value.type === 'number' && !value.text.startsWith('-'))
    return { ...value, text: `-${value.text}` };
  return { kind: 'negation', type: value.type, value };
}

function arithmetic(
  state: Check,
  node: Node,
  operator: ArithmeticOperator,
  operands: readonly [Node, Node],
): Term | undefined {
  const [left, right] = pair(state, operands);
  if (left === undefined || right === undefined) return undefined;
  if (isNumeric(left.type) && isNumeric(right.type)) {
    const isInteger = operator !== '/' && left.type === 'integer' && right.type === 'integer';
    return { kind: 'arithmetic', type: isInteger ? 'integer' : 'number', operator, left, right };
  }
  if ((operator === '+' || operator === '-') && left.type === 'date' && right.type === 'duration')
    return dayShift(state, operands[1], { operator, value: left, span: right });
  if (operator === '+' && left.type === 'duration' && right.type === 'date')
    return dayShift(state, operands[0], { operator, value: right, span: left });
  if (
    state.isImmutable === true &&
    left.type !== right.type &&
    [left.type, right.type].includes('duration')
  ) {
    return state.fail(node, 'timestamps cannot be moved by a duration in this expression');
  }
  if ((operator === '+' || operator === '-') && left.type === 'timestamp' && right.type === 'duration') {
    return { kind: 'shift', type: 'timestamp', operator, time: left, span: right };
  }
  if (operator === '+' && left.type === 'duration' && right.type === 'timestamp') {
    return { kind: 'shift', type: 'timestamp', operator, time: right, span: left };
  }
  const [leftNode, rightNode] = operands;
  const message = `"${operator}" cannot be applied to ${describe(state, leftNode, left)} and ${describe(state, rightNode, right)}`;
  const isTimeSpan = operator === '-' && left.type === 'timestamp' && right.type === 'timestamp';
  return state.fail(node, isTimeSpan ? `${message}. ${timeSpanHint}` : message);
}

/** Checks a date that is moved by a duration. @param node the duration */
function dayShift(
  state: Check,
  node: Node,
  { operator, value, span }: { readonly operator: '+' | '-'; readonly value: Term; readonly span: Term },
): Term | undefined {
  const days = span.kind === 'literal' ? daysOf(span.text) : undefined;
  return days === undefined
    ? state.fail(
        node,
        'a date can only be moved by whole days, for example duration("24h") or duration("336h")',
      )
    : { kind: 'day shift', type: 'date', operator, value, days };
}
