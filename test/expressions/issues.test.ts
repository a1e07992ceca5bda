// Each issue in an expression is reported at its offset, with a suggestion if one is known.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { copiedField, equality, nullTestedFields } from '../../engine/expressions/index.ts';
import { compile, fields, type Issue } from '../support/expressions.ts';

const functions = 'Available: timestamp, date, duration, round';
const duration =
  'duration needs hours, minutes and seconds of at most 1000000 hours, for example duration("24h") or duration("1h30m")';
const timestamp = 'timestamp needs an RFC 3339 timestamp, for example timestamp("2026-03-01T09:30:00Z")';

const cases: readonly (readonly [source: string, ...issues: Issue[]])[] = [
  // Names.
  ['titel == "x"', [0, 'unknown field "titel". Did you mean "title"?']],
  ['active && zzz == 1', [10, 'unknown field "zzz"']],
  ['telefax == "1"', [0, '"telefax" is now called "fax". Use the current name.']],
  ['tel == "1"', [0, '"tel" is now called "phone". Use the current name.']],
  ['thing_title == "x"', [0, '"thing_title" is a joined field, which an expression cannot read']],
  ['package == 1', [0, '"package" is a reserved word and cannot be the name of a field in an expression']],
  ['now() > seen_at', [0, 'write "now" without parentheses']],
  // Types.
  ['title == 5', [0, 'title (text) cannot be compared with 5 (an integer). Write "5" in quotes.']],
  ['5 == title', [0, '5 (an integer) cannot be compared with title (text). Write "5" in quotes.']],
  ['"5" == score', [0, '"5" (text) cannot be compared with score (an integer). Write 5 without quotes.']],
  ['score == "5"', [0, 'score (an integer) cannot be compared with "5" (text). Write 5 without quotes.']],
  [
    'active == "true"',
    [0, 'active (true or false) cannot be compared with "true" (text). Write true without quotes.'],
  ],
  [
    'amount == "-5.5"',
    [0, 'amount (a number) cannot be compared with "-5.5" (text). Write -5.5 without quotes.'],
  ],
  ['amount == "5,5"', [0, 'amount (a number) cannot be compared with "5,5" (text)']],
  ['active == "yes"', [0, 'active (true or false) cannot be compared with "yes" (text)']],
  [
    'seen_at < "2026-03-01"',
    [0, 'seen_at (a timestamp) cannot be compared with "2026-03-01" (text). Write timestamp("2026-03-01").'],
  ],
  [
    'due_on < "2026-03-01"',
    [0, 'due_on (a date) cannot be compared with "2026-03-01" (text). Write date("2026-03-01").'],
  ],
  ['due_on < now', [0, 'due_on (a date) cannot be compared with now (a timestamp)']],
  ['thing_id == me', [0, "thing_id (a record's ID) cannot be compared with me (a user's ID)"]],
  ['owner_id > 5', [0, "owner_id (a user's ID) has no order and can only be compared with == or !="]],
  ['5 < thing_id', [0, "thing_id (a record's ID) has no order and can only be compared with == or !="]],
  ['active < true', [0, 'active (true or false) has no order and can only be compared with == or !=']],
  ['1 < score < 3', [0, '1 < score (true or false) cannot be compared with 3 (an integer)']],
  ['title', [0, 'the expression must be true or false, but is text. For example: assignee_id == me.']],
  ['!title', [1, 'title (text) must be a condition, for example title != null']],
  ['active && score', [10, 'score (an integer) must be a condition, for example score != null']],
  ['title + "x" == "y"', [0, '"+" cannot be applied to title (text) and "x" (text)']],
  ['-title == "x"', [0, '"-" cannot be applied to title (text)']],
  [
    'seen_at - seen_at > duration("1h")',
    [
      0,
      '"-" cannot be applied to seen_at (a timestamp) and seen_at (a timestamp). Compare one timestamp with the other, moved by a duration, for example ends_at <= starts_at + duration("4h").',
    ],
  ],
  [
    'duration("1h") in [duration("1h")]',
    [19, 'durations cannot be compared. Add the duration to a timestamp, or subtract it.'],
  ],
  // Several issues in one expression.
  [
    'titel == "x" || scor == 1',
    [0, 'unknown field "titel". Did you mean "title"?'],
    [16, 'unknown field "scor". Did you mean "score"?'],
  ],
  // Lists.
  ['score in [1, "x"]', [13, '"x" (text) cannot be compared with score (an integer)']],
  ['score in [1, null]', [13, 'a list cannot contain null. Add "|| score == null".']],
  ['score in amount', [9, '"in" must be followed by a list, for example ["New", "Won"]']],
  ['owner_id in my_taem', [12, '"in" must be followed by a list, for example ["New", "Won"], or by my_team']],
  // Teams.
  ['score in my_team', [0, 'score (an integer) cannot be in "my_team", which contains users']],
  ['5 in my_team', [0, '5 (an integer) cannot be in "my_team", which contains users']],
  ['thing_id in my_team', [0, `thing_id (a record's ID) cannot be in "my_team", which contains users`]],
  ['owner_id == my_team', [12, '"my_team" can only follow "in", for example assignee_id in my_team']],
  ['owner_id in [my_team]', [13, '"my_team" can only follow "in", for example assignee_id in my_team']],
  [
    'owner_id in my_team()',
    [12, '"in" must be followed by a list, for example ["New", "Won"], or by my_team'],
  ],
  ['my_team() == 1', [0, 'write "my_team" without parentheses']],
  ['ownr_id in my_team', [0, 'unknown field "ownr_id". Did you mean "owner_id"?']],
  ['[1] == score', [0, 'a list can only follow "in"']],
  // Null.
  ['score < null', [8, 'null can only be compared with == or !=, for example assignee_id != null']],
  ['null == null', [0, 'null cannot be compared with null']],
  ['(score == 1) == null', [1, 'score == 1 is never null']],
  ['now != null', [0, 'now is never null']],
  ['null == today', [0, 'today is never null']],
  ['"x" == null', [0, '"x" is never null']],
  ['is_high != null', [0, 'is_high is never null']],
  ['me == null', [0, '"me" cannot be compared with null, because it matches no record if there is no user']],
  ['has(title)', [0, 'write "title != null" instead of has']],
  // Literals.
  ['big == 9223372036854775808', [7, '9223372036854775808 is not a 64-bit integer']],
  ['big == -9223372036854775809', [7, '-9223372036854775809 is not a 64-bit integer']],
  ['amount == 1e5', [10, 'write the number without an exponent and with at most 100 digits']],
  [
    `amount == 0.${'1'.repeat(101)}`,
    [10, 'write the number without an exponent and with at most 100 digits'],
  ],
  [
    `amount == ${'1'.repeat(101)}.0`,
    [10, 'write the number without an exponent and with at most 100 digits'],
  ],
  ['amount == 1e400', [10, 'this is not a valid number']],
  ['score == 5u', [9, '5u is not supported. Write a text in quotes or a number.']],
  ['title == b"x"', [9, 'b"x" is not supported. Write a text in quotes or a number.']],
  ['title == "a\\u0000"', [9, 'text cannot contain U+0000']],
  ['title == "a\\d"', [11, '"\\d" does not start a valid escape. Write \\\\ for a backslash.']],
  ['title == "a', [9, 'the quote (") opened here is never closed']],
  ['title == "a\nb"', [11, 'a text in quotes must be on one line. Write \\n for a line break.']],
  ['seen_at > timestamp("2026-02-30T00:00:00Z")', [20, timestamp]],
  ['seen_at > timestamp(title)', [20, timestamp]],
  ['seen_at > now - duration("1d")', [25, duration]],
  ['seen_at > now - duration("1000001h")', [25, duration]],
  ['seen_at > now - duration("0.0000001s")', [25, duration]],
  ['due_on == date("2026-02-30")', [15, 'date needs a date, for example date("2026-03-01")']],
  // Dates.
  [
    'due_on + duration("25h") > today',
    [9, 'a date can only be moved by whole days, for example duration("24h") or duration("336h")'],
  ],
  [
    'duration("24h1us") + due_on > today',
    [0, 'a date can only be moved by whole days, for example duration("24h") or duration("336h")'],
  ],
  [
    'duration("1h") - seen_at < now',
    [0, '"-" cannot be applied to duration("1h") (a duration) and seen_at (a timestamp)'],
  ],
  ['due_on + 1 > today', [0, '"+" cannot be applied to due_on (a date) and 1 (an integer)']],
  [
    'duration("24h") - due_on > today',
    [0, '"-" cannot be applied to duration("24h") (a duration) and due_on (a date)'],
  ],
  // Rounding.
  ['round(amount) > 1', [0, 'round needs a number and its decimals, for example round(amount, 2)']],
  ['round(amount, 2, 3) > 1', [0, 'round needs a number and its decimals, for example round(amount, 2)']],
  ['round(amount, score) > 1', [14, 'the decimals must be an integer from 0 to 10']],
  ['round(amount, 11) > 1', [14, 'the decimals must be an integer from 0 to 10']],
  ['round(amount, -1) > 1', [14, 'the decimals must be an integer from 0 to 10']],
  ['round(amount, 1.5) > 1', [14, 'the decimals must be an integer from 0 to 10']],
  ['round(title, 2) > 1', [6, 'title (text) cannot be rounded']],
  ['rond(amount, 2) > 1', [0, 'unknown function "rond". Did you mean "round"?']],
  // Words and signs of other languages.
  ['score = 1', [6, 'write "==" instead of "="']],
  ['score === 1', [6, 'write "==" instead of "==="']],
  ['score <> 1', [6, 'write "!=" instead of "<>"']],
  ['active and score == 1', [7, 'write "&&" instead of "and"']],
  ['active OR score == 1', [7, 'write "||" instead of "OR"']],
  ['not active', [0, 'write "!" instead of "not"']],
  ['title is null', [6, 'write "==" instead of "is"']],
  ['active & active', [7, 'write "&&" instead of "&"']],
  // Unsupported parts of CEL.
  ['size(title) > 1', [0, `unknown function "size". ${functions}`]],
  [
    'thing_id.title == "x"',
    [
      0,
      'fields of other records cannot be read in an expression. Repeat the value in a field of this resource.',
    ],
  ],
  ['title.startsWith("x")', [0, 'functions of values are not supported in expressions']],
  ['title.map(1, title)', [10, 'macros are not supported in expressions']],
  ['title[0] == "x"', [0, 'items cannot be selected in an expression']],
  [
    'active ? active : active',
    [0, 'conditional expressions are not supported. Combine conditions with && and ||.'],
  ],
  ['score % 2 == 1', [0, 'remainders are not supported']],
  ['{"a": 1} == score', [0, 'maps are not supported in expressions']],
  // Incomplete expressions.
  ['', [0, 'the expression is empty']],
  ['score ==', [8, 'the expression is incomplete. A value is missing.']],
  ['(score == 1', [0, '"(" is never closed. Add ")".']],
  ['title in ["(", "x"', [9, '"[" is never closed. Add "]".']],
  ['score == 1)', [10, 'unexpected ")"']],
  ['score == 1; active', [10, 'unexpected ";"']],
  ['score == 1; active and active', [10, 'unexpected ";"']],
  // Limits.
  [`active || ${'x'.repeat(1000)}`, [1000, 'an expression can have at most 1000 characters']],
  [
    Array.from({ length: 51 }, () => 'active').join('||'),
    [0, 'an expression can have at most 100 operators and values'],
  ],
  [`${'!'.repeat(100)}active`, [0, 'an expression can have at most 100 operators and values']],
  [`${'('.repeat(21)}active${')'.repeat(21)}`, [21, 'an expression can be nested at most 20 levels deep']],
  [`score in [${Array.from({ length: 201 }, () => '1').join()}]`, [410, 'a list can have at most 200 items']],
];

describe('issues in expressions', () => {
  for (const [source, ...issues] of cases) {
    test(JSON.stringify(source.slice(0, 60)), () => {
      const result = compile(source);
      assert.deepEqual(result.issues, issues);
      assert.equal(result.expression, undefined);
    });
  }
});

describe('expressions at a limit', () => {
  for (const [name, source] of [
    ['1,000 characters', `title == "${'x'.repeat(989)}"`],
    [
      '100 operators and values',
      Array.from({ length: 50 }, () => 'active')
        .join('||')
        .concat(''),
    ],
    ['20 levels', `${'('.repeat(20)}active${')'.repeat(20)}`],
    ['100 digits before and after the decimal point', `amount == ${'1'.repeat(100)}.${'1'.repeat(100)}`],
    ['10 decimals', 'round(amount, 10) > 1.5'],
    ['200 items', `score in [${Array.from({ length: 200 }, () => '1').join()}]`],
    ['the lowest integer', 'big == -9223372036854775808'],
    ['the longest duration', 'seen_at > now - duration("1000000h")'],
  ] as const) {
    test(name, () => assert.deepEqual(compile(source).issues, []));
  }
});

describe('an expression', () => {
  test('lists the fields that it reads, and whether it mentions the caller', () => {
    const { expression } = compile('owner_id == me || (title in ["a"] && seen_at < now && title != null)');
    assert.deepEqual(
      [expression?.fields, expression?.usesCaller, expression?.type],
      [['owner_id', 'seen_at', 'title'], true, 'boolean'],
    );
    const plain = compile('score == 1').expression;
    assert.deepEqual([plain?.fields, plain?.usesCaller], [['score'], false]);
    assert.deepEqual(compile('doubled > amount || is_high').expression?.fields, ['amount', 'score']);
    const team = compile('!(owner_id in my_team) || me in my_team').expression;
    assert.deepEqual([team?.fields, team?.usesCaller, team?.usesTeam], [['owner_id'], true, true]);
    assert.deepEqual([expression?.usesTeam, plain?.usesTeam], [false, false]);
  });

  test('must have the expected type', () => {
    assert.equal(compile('score + 1', { expected: 'number' }).expression?.type, 'number');
    assert.deepEqual(compile('amount', { expected: 'integer' }).issues, [
      [0, 'the expression must be an integer, but is a number'],
    ]);
    assert.deepEqual(compile('score / 2', { expected: 'integer' }).issues, [
      [0, 'the expression must be an integer, but is a number'],
    ]);
    for (const source of ['score * 2', 'round(amount, 0)', '-score', 'round(score, 2)'])
      assert.equal(compile(source, { expected: 'integer' }).expression?.type, 'integer', source);
  });

  test('cannot mention the caller or the time, or read a field, if this is not allowed', () => {
    const options = { allowsCaller: false, allowsNow: false };
    assert.deepEqual(compile('owner_id == me && seen_at < now', options).issues, [
      [12, 'the value cannot depend on the caller ("me")'],
      [28, 'the value cannot depend on the current time ("now")'],
    ]);
    assert.deepEqual(compile('owner_id in my_team', options).issues, [
      [12, 'the value cannot depend on the caller ("my_team")'],
    ]);
    const findIssue = ({ name }: { name: string }) => (name === 'title' ? 'no titles' : undefined);
    assert.deepEqual(compile('score == 1 || title == "x"', { findIssue }).issues, [[14, 'no titles']]);
  });

  test('reads a field named "today" or "my_team"', () => {
    const title = fields.get('title') ?? assert.fail();
    for (const name of ['today', 'my_team']) {
      const { expression, issues } = compile(`${name} == "x"`, {
        fields: new Map([...fields, [name, { ...title, name }]]),
        ...{ allowsCaller: false, allowsNow: false },
      });
      assert.deepEqual([issues, expression?.fields, expression?.usesTeam], [[], [name], false]);
    }
  });

  test('can be an equality, a copy of a field, or a test for null', () => {
    const compiled = (source: string) => compile(source).expression ?? assert.fail(source);
    for (const [source, field] of [
      ['title == "x"', 'title'],
      ['"x" == title', 'title'],
      ['owner_id == me', 'owner_id'],
      ['me == owner_id', 'owner_id'],
      ['title != "x"', undefined],
      ['title == note', undefined],
      ['score + 1 == 2', undefined],
      ['title == "x" && active', undefined],
      ['!(title == "x")', undefined],
    ] as const)
      assert.equal(equality(compiled(source))?.field, field, source);
    const copied = (source: string) => {
      const { expression } = compile(source, { expected: 'number' });
      return copiedField(expression ?? assert.fail(source));
    };
    assert.deepEqual(['amount', 'amount + 0', 'round(amount, 2)'].map(copied), [
      'amount',
      undefined,
      undefined,
    ]);
    for (const [source, ...names] of [
      ['title == null', 'title'],
      ['active && !(score != null || note == "x")', 'score'],
      ['-(score + big) == null && owner_id in [1] && title in ["x"]', 'big', 'score'],
      ['(active ==  (due_on + duration("24h") == null)) && seen_at != null', 'due_on', 'seen_at'],
      ['doubled == null && title == "x"', 'score'],
      ['round(amount, 1) > 1 && seen_at < now', ...[]],
      ['active in [score == 1, title != null]', 'title'],
    ] as const)
      assert.deepEqual([...nullTestedFields(compiled(source))].sort(), names, source);
  });

  test('that fails to compile does not affect the next one', () => {
    compile('((((score');
    assert.deepEqual(compile('score == 1').issues, []);
  });
});

test('no text makes the compiler throw', () => {
  // Each token is valid in some position, and most combinations are not.
  const tokens = [
    'score',
    '"x"',
    '1',
    '==',
    '(',
    ')',
    '[',
    ']',
    '!',
    '-',
    '&&',
    'in',
    '.',
    ',',
    '?',
    ':',
    '{',
    'has(',
    'x.map(',
    'null',
    'cel.bind(',
  ];
  for (const first of tokens)
    for (const second of tokens)
      for (const third of tokens) {
        const source = [first, second, third].join(' ');
        const { expression, issues } = compile(source);
        assert.equal(expression === undefined, issues.length > 0, source);
        for (const [offset, message] of issues)
          assert.ok(offset <= source.length && message.length > 5, source);
      }
});
