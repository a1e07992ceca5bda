// The SQL of an expression computes the same as a small reference evaluator, on random expressions and records. The
// evaluator works on the generated tree, so the text, the parser, the types and the SQL are all tested.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import { conditionSql, expressionSql, noCaller } from '../../engine/expressions/index.ts';
import { literal, quote } from '../../engine/sql/index.ts';
import { compile } from '../support/expressions.ts';
import { onBothDrivers } from '../support/instance.ts';

/** An exact fraction. The denominator is positive. */
interface Fraction {
  readonly over: bigint;
  readonly under: bigint;
}
/** A value: a truth value, text, a number, microseconds since 1970, or null. */
type Value = boolean | string | Fraction | bigint | null;
type Kind = 'text' | 'number' | 'id' | 'boolean' | 'timestamp' | 'date';

/** A node of a generated expression: its notation, how tightly it binds, and its value for a record. */
interface Generated {
  readonly text: string;
  readonly binding: number;
  readonly valueFor: (row: Row) => Value;
}
type Row = Readonly<Record<string, { readonly sql: string; readonly value: Value }>>;

const fraction = (over: bigint, under = 1n): Fraction => ({ over, under });
const compare = (a: Value, b: Value): number => {
  if (typeof a === 'string' && typeof b === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b));
  if (isFraction(a) && isFraction(b)) return sign(a.over * b.under - b.over * a.under);
  if (typeof a === 'bigint' && typeof b === 'bigint') return sign(a - b);
  return Number(a) - Number(b);
};
const isFraction = (value: Value): value is Fraction => typeof value === 'object' && value !== null;
const sign = (value: bigint): number => (value > 0n ? 1 : value < 0n ? -1 : 0);
/** Parses a decimal number. */
function parseDecimal(text: string): Fraction {
  const [whole = '', decimals = ''] = text.split('.');
  return fraction(BigInt(whole + decimals), 10n ** BigInt(decimals.length));
}
/** Parses a timestamp with up to six decimals. */
function parseTime(text: string): bigint {
  const [, seconds = '', decimals = '', offset = ''] =
    /^([^.]*?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  return BigInt(Date.parse(`${seconds}${offset}`)) * 1000n + BigInt(decimals.padEnd(6, '0'));
}

const texts = [
  '',
  'a',
  'B',
  'b',
  'é',
  '😀',
  '\u{ffff}',
  'a b',
  "it's",
  'x"y\\',
  '%_',
  'line\nbreak',
  '${a}',
  '--',
];
const integers = ['0', '1', '-1', '5', '2147483647', '-2147483648'];
const bigIntegers = [...integers, '9223372036854775807', '-9223372036854775808', '9007199254740993'];
const decimals = ['0.0', '0.1', '0.10', '0.30000000000000000001', '-12.5', '1000000.01'];
const times = [
  '2026-03-01T09:30:00Z',
  '2026-03-01T10:30:00+01:00',
  '2026-03-01T09:30:00.000001Z',
  '1999-12-31T23:59:59.999999-08:00',
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59Z',
];
const days = ['2026-03-01', '2024-02-29', '0001-01-01', '9999-12-31'];
const durations = [
  ['24h', 86_400_000_000n],
  ['-1h30m', -5_400_000_000n],
  ['0.5s', 500_000n],
  ['1us', 1n],
  ['1.5ms', 1500n],
  ['1000000h', 3_600_000_000_000_000n],
] as const;

/** The columns of a record: PostgreSQL type, values and their interpretation. */
const columns = {
  title: ['text', texts, (text: string): Value => text],
  note: ['text', texts, (text: string): Value => text],
  score: ['integer', integers, parseDecimal],
  big: ['bigint', bigIntegers, parseDecimal],
  amount: ['numeric', [...integers, ...decimals], parseDecimal],
  active: ['boolean', ['true', 'false'], (text: string): Value => text === 'true'],
  seen_at: ['timestamptz', times, parseTime],
  due_on: ['date', days, (text: string): Value => BigInt(Date.parse(text))],
  owner_id: ['bigint', ['1', '2'], parseDecimal],
  organization_id: ['bigint', ['1', '2'], parseDecimal],
  thing_id: ['bigint', ['1', '2'], parseDecimal],
  me: ['bigint', ['1', '2'], parseDecimal],
} as const satisfies Readonly<Record<string, readonly [string, readonly string[], (text: string) => Value]>>;

const rowOf: Arbitrary<Row> = fc.record(
  Object.fromEntries(
    Object.entries(columns).map(([name, [type, values, parse]]) => [
      name,
      fc
        .option(fc.constantFrom<string>(...values), { freq: 3 })
        .map((text) =>
          text === null
            ? { sql: `null::${type}`, value: null }
            : { sql: `${literal(text)}::${type}`, value: parse(text) },
        ),
    ]),
  ),
);

const atom = 9;
const field = (name: string): Generated => ({
  text: name,
  binding: atom,
  valueFor: (row) => row[name]?.value ?? null,
});
const constant = (text: string, value: Value): Generated => ({ text, binding: atom, valueFor: () => value });
/** Returns an operand's notation, in parentheses if it binds less tightly. */
const within = ({ text, binding }: Generated, required: number): string =>
  binding < required ? `(${text})` : text;
/** Returns the notation of a left-associative operator. */
const infix = (left: Generated, operator: string, right: Generated, binding: number): string =>
  `${within(left, binding)} ${operator} ${within(right, binding + 1)}`;

const quotes = fc.constantFrom('"', "'");
const textLiteral = fc
  .tuple(fc.constantFrom(...texts), quotes)
  .map(([text, quoteSign]) =>
    constant(
      quoteSign === '"'
        ? JSON.stringify(text)
        : `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')}'`,
      text,
    ),
  );
const numberLiteral = fc
  .constantFrom(...bigIntegers, ...decimals)
  .map((text) => ({ ...constant(text, parseDecimal(text)), binding: text.startsWith('-') ? 7 : atom }));
const timeLiteral = fc
  .constantFrom(...times)
  .map((text) => constant(`timestamp("${text}")`, parseTime(text)));
const dayLiteral = fc
  .constantFrom(...days)
  .map((text) => constant(`date('${text}')`, BigInt(Date.parse(text))));
const durationLiteral = fc
  .constantFrom(...durations)
  .map(([text, value]) => ({ text: `duration("${text}")`, value }));

/** Applies a function unless an operand is null. */
const lift =
  <T extends Value>(apply: (a: T, b: T) => Value, left: Generated, right: Generated) =>
  (row: Row): Value => {
    const [a, b] = [left.valueFor(row), right.valueFor(row)];
    return a === null || b === null ? null : apply(a as T, b as T);
  };

/** Rounds a fraction to decimals, half away from zero. */
function rounded({ over, under }: Fraction, digits: bigint): Fraction {
  const scale = 10n ** digits;
  const [size, divisor] = [(over < 0n ? -over : over) * scale, under];
  const result = (2n * size + divisor) / (2n * divisor);
  return fraction(over < 0n ? -result : result, scale);
}

const arithmetic: Readonly<Record<string, (a: Fraction, b: Fraction) => Value>> = {
  '+': (a, b) => fraction(a.over * b.under + b.over * a.under, a.under * b.under),
  '-': (a, b) => fraction(a.over * b.under - b.over * a.under, a.under * b.under),
  '*': (a, b) => fraction(a.over * b.over, a.under * b.under),
  '/': (a, b) => {
    if (b.over === 0n) return null;
    const [over, under] = [a.over * b.under, a.under * b.over];
    return rounded(under < 0n ? fraction(-over, -under) : fraction(over, under), 16n);
  },
};

const { number, timestamp, condition } = fc.letrec<{
  number: Generated;
  timestamp: Generated;
  condition: Generated;
}>((tie) => {
  const numberLeaf = fc.oneof(fc.constantFrom(field('score'), field('big'), field('amount')), numberLiteral);
  const generatedNumber = fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    numberLeaf,
    fc
      .tuple(tie('number'), fc.constantFrom('+', '-', '*', '/'), tie('number'))
      .map(([left, operator, right]) => {
        const binding = operator === '*' || operator === '/' ? 6 : 5;
        return {
          text: infix(left, operator, right, binding),
          binding,
          valueFor: lift(arithmetic[operator] ?? assert.fail(), left, right),
        };
      }),
    fc.tuple(tie('number'), fc.constantFrom(0, 1, 2, 10)).map(
      ([operand, digits]): Generated => ({
        text: `round(${operand.text}, ${digits})`,
        binding: atom,
        valueFor: (row) => {
          const value = operand.valueFor(row);
          return isFraction(value) ? rounded(value, BigInt(digits)) : null;
        },
      }),
    ),
    tie('number').map(
      (operand): Generated => ({
        text: `- ${within(operand, 8)}`,
        binding: 7,
        valueFor: (row) => {
          const value = operand.valueFor(row);
          return isFraction(value) ? fraction(-value.over, value.under) : null;
        },
      }),
    ),
  );
  const generatedTime = fc.oneof(
    { maxDepth: 2 },
    fc.constant(field('seen_at')),
    timeLiteral,
    fc.tuple(tie('timestamp'), fc.constantFrom('+', '-'), durationLiteral).map(
      ([time, operator, span]): Generated => ({
        text: `${within(time, 5)} ${operator} ${span.text}`,
        binding: 5,
        valueFor: (row) => {
          const value = time.valueFor(row);
          return typeof value === 'bigint' ? value + (operator === '+' ? span.value : -span.value) : null;
        },
      }),
    ),
  );
  const user = fc.constantFrom(field('owner_id'), field('me'), constant('1', fraction(1n)));
  const record = fc.constantFrom(field('thing_id'), constant('2', fraction(2n)));
  const text = fc.oneof(fc.constantFrom(field('title'), field('note')), textLiteral);
  const plainDay = fc.oneof(fc.constant(field('due_on')), dayLiteral);
  const movedDay = fc
    .tuple(plainDay, fc.constantFrom('+', '-'), fc.constantFrom(1n, 14n, -2n, 41_664n))
    .map(([value, operator, days]): Generated => {
      const moved = operator === '+' ? days : -days;
      return {
        text: `${value.text} ${operator} duration("${24n * days}h")`,
        binding: 5,
        valueFor: (row) => {
          const time = value.valueFor(row);
          return typeof time === 'bigint' ? time + moved * 86_400_000n : null;
        },
      };
    });
  const day = fc.oneof(plainDay, movedDay);
  const operands: readonly (readonly [Kind, Arbitrary<Generated>])[] = [
    ['text', text],
    ['number', tie('number')],
    ['id', user],
    ['id', record],
    ['timestamp', tie('timestamp')],
    ['date', day],
    ['boolean', tie('condition')],
  ];
  const isOrdered = (kind: Kind) => kind !== 'id' && kind !== 'boolean';
  const tests: Readonly<Record<string, (order: number) => boolean>> = {
    '==': (order) => order === 0,
    '!=': (order) => order !== 0,
    '<': (order) => order < 0,
    '<=': (order) => order <= 0,
    '>': (order) => order > 0,
    '>=': (order) => order >= 0,
  };
  const comparison = fc.constantFrom(...operands).chain(([kind, operand]) =>
    fc
      .tuple(operand, fc.constantFrom(...(isOrdered(kind) ? Object.keys(tests) : ['==', '!='])), operand)
      .map(([left, operator, right]): Generated => {
        const binding = operator === '==' || operator === '!=' ? 3 : 4;
        return {
          text: infix(left, operator, right, binding),
          binding,
          valueFor: lift((a, b) => (tests[operator] ?? assert.fail())(compare(a, b)), left, right),
        };
      }),
  );
  const membership = fc
    .constantFrom(...operands.filter(([kind]) => kind !== 'boolean'))
    .chain(([, operand]) => fc.tuple(operand, fc.array(operand, { maxLength: 4 })))
    .map(
      ([value, items]): Generated => ({
        text: `${within(value, 4)} in [${items.map((item) => item.text).join(', ')}]`,
        binding: 4,
        valueFor: (row) => {
          const results = items.map((item) => lift((a, b) => compare(a, b) === 0, value, item)(row));
          return results.includes(true) ? true : results.includes(null) ? null : false;
        },
      }),
    );
  /** Tests for the caller's team, which consists of the caller and user 2. */
  const teamMembership = fc.constantFrom(field('owner_id'), field('me')).map(
    (user): Generated => ({
      text: `${user.text} in my_team`,
      binding: 4,
      valueFor: (row) => {
        const [id, me] = [user.valueFor(row), field('me').valueFor(row)];
        if (id === null) return null;
        const team = [me, fraction(2n)];
        if (team.some((member) => member !== null && compare(id, member) === 0)) return true;
        return me === null ? null : false;
      },
    }),
  );
  const nullTest = fc
    .tuple(
      fc.oneof(
        fc.constantFrom(...Object.keys(columns).filter((name) => name !== 'me')).map(field),
        tie('number').filter(({ text: notation }) => /[a-z]/.test(notation)),
      ),
      fc.constantFrom('==', '!='),
      fc.boolean(),
    )
    .map(
      ([operand, operator, isFirst]): Generated => ({
        text: isFirst ? `null ${operator} ${within(operand, 4)}` : `${within(operand, 3)} ${operator} null`,
        binding: 3,
        valueFor: (row) => (operand.valueFor(row) === null) === (operator === '=='),
      }),
    );
  const logic = (operator: '&&' | '||') =>
    fc.tuple(tie('condition'), tie('condition')).map(([left, right]): Generated => {
      const binding = operator === '&&' ? 2 : 1;
      const decisive = operator === '||';
      return {
        text: infix(left, operator, right, binding),
        binding,
        valueFor: (row) => {
          const values = [left.valueFor(row), right.valueFor(row)];
          if (values.includes(decisive)) return decisive;
          return values.includes(null) ? null : !decisive;
        },
      };
    });
  const generatedCondition = fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(field('active'), constant('true', true), constant('false', false)),
    comparison,
    membership,
    teamMembership,
    nullTest,
    logic('&&'),
    logic('||'),
    tie('condition').map(
      (operand): Generated => ({
        text: `!${within(operand, 8)}`,
        binding: 7,
        valueFor: (row) => {
          const value = operand.valueFor(row);
          return value === null ? null : !value;
        },
      }),
    ),
  );
  return { number: generatedNumber, timestamp: generatedTime, condition: generatedCondition };
});

const context = {
  column: (name: string) => `r.${quote(name)}`,
  me: () => 'r."me"',
  team: () => 'array[r."me", 2]::bigint[]',
};

/** Returns a FROM clause with the rows, whose texts have a collation. */
const fromRows = (rows: readonly Row[], collation: string): string => {
  const names = Object.entries(columns);
  const values = rows.map((row, index) => {
    const cells = names.map(([name, [type]]) =>
      type === 'text' ? `${row[name]?.sql} collate ${quote(collation)}` : row[name]?.sql,
    );
    return `(${index}, ${cells.join(', ')})`;
  });
  return `from (values ${values.join(', ')}) r(n, ${names.map(([name]) => quote(name)).join(', ')})`;
};

/** Converts a value to text as PostgreSQL does. */
const truth = (value: Value): string => (value === true ? 'true' : 'false');

onBothDrivers('expressions', (instance, driver) => {
  // A collation that orders differently from "C". PGlite has no other collation.
  const collation = driver === 'postgresql' ? 'und-x-icu' : 'C';
  const sql = (text: string) => instance().database.run({ name: '', text, values: [] });

  test('compute the same as the reference evaluator', async () => {
    let nulls = 0;
    let matches = 0;
    let count = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(condition, { minLength: 20, maxLength: 20 }),
        fc.array(rowOf, { minLength: 12, maxLength: 12 }),
        async (conditions, rows) => {
          const compiled = conditions.flatMap((generated) => {
            if (generated.text.length > 1000) return [];
            const { expression, issues } = compile(generated.text);
            if (
              issues.some(
                ([, message]) => message.includes('100 operators') || message.includes('is never null'),
              )
            )
              return [];
            assert.ok(expression, `${generated.text}: ${JSON.stringify(issues)}`);
            return [{ generated, expression }];
          });
          if (compiled.length === 0) return;
          const outputs = compiled.flatMap(({ expression }) => [
            `(${expressionSql(expression, context)})::text`,
            // WHERE keeps the same rows.
            `(exists (select where ${conditionSql(expression, context)}))::text`,
          ]);
          const results = await sql(`select ${outputs.join(', ')} ${fromRows(rows, collation)} order by r.n`);
          for (const [index, row] of rows.entries()) {
            for (const [position, { generated }] of compiled.entries()) {
              const value = generated.valueFor(row);
              const found = results[index]?.slice(2 * position, 2 * position + 2);
              assert.deepEqual(
                found,
                [truth(value), truth(value)],
                `${generated.text} for ${JSON.stringify(row, (_, part) => (typeof part === 'bigint' ? String(part) : part))}`,
              );
              count += 1;
              if (value === null) nulls += 1;
              if (value === true) matches += 1;
            }
          }
        },
      ),
      { numRuns: 60 },
    );
    // The expressions are neither all null nor all false.
    assert.ok(nulls > count / 20 && matches > count / 10, `${nulls} null and ${matches} true of ${count}`);
  });

  test('compute numbers and timestamps exactly', async () => {
    await fc.assert(
      fc.asyncProperty(number, timestamp, rowOf, async (amount, time, row) => {
        const numeric = compile(amount.text, { expected: 'number' }).expression;
        const moved = compile(time.text, { expected: 'timestamp' }).expression;
        assert.ok(numeric && moved, `${amount.text} ${time.text}`);
        const [found] = await sql(
          `select (${expressionSql(numeric, context)})::text, (extract(epoch from ${expressionSql(moved, context)}) * 1000000)::numeric(40)::text ${fromRows([row], collation)}`,
        );
        const expected = amount.valueFor(row);
        const result = found?.[0] === null ? null : String(found?.[0]);
        if (expected === null || result === null) assert.equal(result, expected, amount.text);
        else assert.equal(compare(parseDecimal(result), expected), 0, `${amount.text} is ${result}`);
        const instant = time.valueFor(row);
        assert.equal(found?.[1] ?? null, instant === null ? null : String(instant), time.text);
      }),
      { numRuns: 100 },
    );
  });

  test('follow the truth table for null', async () => {
    // For each expression: its value if score is 1, 2 and null.
    for (const [source, ...expected] of [
      ['score == 1', true, false, false],
      ['!(score == 1)', false, true, false],
      ['!!(score == 1)', true, false, false],
      ['score != 1', false, true, false],
      ['!(score != 1)', true, false, false],
      ['score < 2', true, false, false],
      ['!(score < 2)', false, true, false],
      ['score in [1]', true, false, false],
      ['!(score in [1])', false, true, false],
      ['score in []', false, false, false],
      ['!(score in [])', true, true, true],
      ['score == null', false, false, true],
      ['!(score == null)', true, true, false],
      ['score != null', true, true, false],
      ['score == 1 || score == null', true, false, true],
      ['score == 1 || true', true, true, true],
      ['score == 1 && true', true, false, false],
      ['!(score == 1 && false)', true, true, true],
      ['!(score == 1 || false)', false, true, false],
      ['score == 1 || !(score == 1)', true, true, false],
      ['(score == 1) == true', true, false, false],
      ['(score == 1) == false', false, true, false],
      ['score == score', true, true, false],
      ['1 / (score - 1) == 1', false, true, false],
      ['round(score / 2, 0) == 1', true, true, false],
      ['round(-score / 2, 0) == -1', true, true, false],
      ['round(score * 1.005, 2) == 1.01', true, false, false],
      ['!(round(score, 2) == 1.00)', false, true, false],
      ['!(1 / (score - 1) == 1)', false, false, false],
    ] as const) {
      const { expression } = compile(source);
      assert.ok(expression, source);
      const columnOf = { column: () => '"score"', ...noCaller };
      const found = await sql(
        `select (${expressionSql(expression, columnOf)})::text, (exists (select where ${conditionSql(expression, columnOf)}))::text from (values (1, 1), (2, 2), (3, null::integer)) r(n, "score") order by r.n`,
      );
      assert.deepEqual(
        found.map((row) => [...row]),
        expected.map((value) => [String(value), String(value)]),
        source,
      );
    }
  });

  test('without a user, no comparison with "me" is true', async () => {
    const noUser = { column: () => '1::bigint', ...noCaller, me: () => 'null::bigint' };
    for (const source of [
      'owner_id == me',
      'owner_id != me',
      '!(owner_id == me)',
      'me in [1, 2]',
      '!(me in [1])',
      'owner_id in [me]',
      'owner_id in my_team',
      '!(owner_id in my_team)',
    ]) {
      const { expression } = compile(source);
      assert.ok(expression, source);
      assert.deepEqual(
        [...((await sql(`select (${expressionSql(expression, noUser)})::text`))[0] ?? [])],
        ['false'],
        source,
      );
    }
  });

  test('of a WHERE clause can use an index', async () => {
    await sql(
      'create table expression_index (n integer, title text collate "C", owner_id bigint, seen_at timestamptz)',
    );
    await sql(
      "insert into expression_index select n, 'title ' || n, n, timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, 20000) n",
    );
    for (const name of ['title', 'owner_id', 'seen_at'])
      await sql(`create index on expression_index (${quote(name)})`);
    await sql('analyze expression_index');
    for (const source of [
      'owner_id == me',
      'owner_id in [5, me]',
      'owner_id in my_team',
      'title == "title 5"',
      'title in ["title 5", "title 6"]',
      'owner_id == me || title == "title 7"',
      'seen_at > timestamp("2026-01-14T21:00:00Z")',
      'seen_at > timestamp("2026-01-14T20:00:00Z") + duration("1h") && title != null',
    ]) {
      const { expression } = compile(source);
      assert.ok(expression, source);
      const columnOf = {
        column: quote,
        me: () => '7::bigint',
        team: () => 'array(select 7::bigint union all select 8)',
      };
      const plan = (
        await sql(
          `explain (costs off) select * from expression_index where ${conditionSql(expression, columnOf)}`,
        )
      ).join('\n');
      assert.match(plan, /Index Cond/, source);
    }
    await sql('drop table expression_index');
  });

  test('compare with the current time', async () => {
    const { expression } = compile('seen_at > now - duration("1h") && seen_at <= now');
    assert.ok(expression);
    const found = await sql(
      `select ${[
        'now()',
        "now() - interval '59 minutes'",
        "now() - interval '61 minutes'",
        "now() + interval '1 second'",
      ]
        .map((time) => `(${expressionSql(expression, { column: () => time, ...noCaller })})::text`)
        .join(', ')}`,
    );
    assert.deepEqual([...(found[0] ?? [])], ['true', 'true', 'false', 'false']);
  });

  test('the current date is that of UTC in every time zone of the session', async () => {
    const { expression } = compile('today', { expected: 'date' });
    assert.ok(expression);
    const today = expressionSql(expression, { column: () => '', ...noCaller });
    // At any time, the date differs from that of UTC in one of these zones.
    for (const zone of ['Etc/GMT+12', 'Etc/GMT-14']) {
      const found = await sql(
        `with zone as materialized (select set_config('timezone', '${zone}', true)) select (${today})::text, ((now() at time zone 'UTC')::date)::text from zone`,
      );
      assert.equal(found[0]?.[0], found[0]?.[1], zone);
    }
  });

  test('keep long integers and decimals exact, and cannot leave SQL literals', async () => {
    for (const [source, column, expected] of [
      ['big == 9007199254740993', "'9007199254740993'::bigint", true],
      ['big == 9007199254740993', "'9007199254740992'::bigint", false],
      ['amount == 0.1', "'0.1'::numeric", true],
      ['amount == 0.30000000000000000001', "'0.3'::numeric", false],
      ['big * big > 0', "'9223372036854775807'::bigint", true],
      ['duration("48h") + due_on == date("2026-03-01")', "'2026-02-27'::date", true],
      [
        'duration("1h") + seen_at == timestamp("2026-03-01T00:00:00Z")',
        "'2026-02-28T23:00:00Z'::timestamptz",
        true,
      ],
      [`title == "'; drop table x; --"`, `'''; drop table x; --'::text`, true],
      [`title == "\\\\' or true --"`, `'\\'' or true --'::text`, true],
    ] as const) {
      const { expression } = compile(source);
      assert.ok(expression, source);
      const found = await sql(
        `select (${expressionSql(expression, { column: () => column, ...noCaller })})::text`,
      );
      assert.deepEqual([...(found[0] ?? [])], [String(expected)], source);
    }
  });
});
