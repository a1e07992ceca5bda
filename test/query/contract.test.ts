// What every query part in the registry guarantees. New parts are covered automatically.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import base from '../../engine/definition/resource.schema.json' with { type: 'json' };
import { unknownNameIssue } from '../../engine/query/fields-parameter.ts';
import { filters } from '../../engine/query/filters.ts';
import { type OperatorName, operatorOf, operators } from '../../engine/query/operators.ts';
import type { QueryPart } from '../../engine/query/part.ts';
import { listParameters, type PartName, queryParts, querySchema } from '../../engine/query/parts.ts';
import { noGrants } from '../../engine/records/index.ts';
import { YamlError } from '../../engine/yaml/load.ts';
import { hintForInput } from '../../engine/yaml/words.ts';
import { everyType } from '../support/every-type.ts';
import { sourcesWith } from '../support/sources.ts';

const resources = compileResource(checkSources(await sourcesWith(...everyType)), '/api', []);
const principal = {
  kind: 'key',
  actor: '3',
  name: null,
  organization: '42',
  user: null,
  grants: noGrants,
} as const;
const parts = Object.entries(queryParts) as unknown as readonly (readonly [PartName, QueryPart])[];

/** Returns the error lines for a resource with an additional line of YAML. */
function issuesOf(line: string): readonly string[] {
  const text = [
    'fields:',
    '  id: { type: int64, read_only: true, set: id }',
    '  organization_id: { type: int64, read_only: true, set: organization }',
    '  a: { type: string }',
    line,
  ].join('\n');
  try {
    checkSources([{ file: 'things.yaml', text }]);
    return [];
  } catch (error) {
    assert.ok(error instanceof YamlError, String(error));
    return error.message.split('\n');
  }
}

for (const [name, part] of parts) {
  describe(`the query part ${name}`, () => {
    if (part.yaml !== undefined) {
      test('reports errors in its YAML with their location', () => {
        for (const wrong of [`${name}: 7`, `${name}: [no_such_field]`, `${name}: { no_such_key: 1 }`]) {
          const lines = issuesOf(wrong);
          assert.ok(lines.length > 0, `${wrong} is accepted`);
          for (const line of lines) assert.match(line, /^things\.yaml:5:\d+ {2}\S/, wrong);
        }
      });
      test('has a key in the editor schema', () => {
        assert.ok(Object.hasOwn(querySchema, name) && !Object.hasOwn(base.properties, name));
      });
    }

    for (const resource of resources) {
      const declared = resource.definition[name];
      test(`${resource.name}: describes each parameter once`, () => {
        const described = part
          .describe(declared)
          .map((each) => ('$ref' in each ? String(each.$ref).split('/').at(-1) : each.name));
        assert.deepEqual(described.toSorted(), [...part.parameters(declared)].toSorted());
        for (const parameter of described) {
          assert.ok(listParameters(resource.definition).includes(String(parameter)));
        }
      });

      test(`${resource.name}: restricts statements to the organization and contains nothing from a request`, () => {
        const { list } = resource.operations;
        const value = '7262';
        for (const parameter of part.parameters(declared)) {
          let plan: ReturnType<typeof list.plan>;
          try {
            const query = { [parameter]: value };
            plan = list.plan({ caller: { principal, requestId: '' }, query });
          } catch {
            // The parameter rejects this value, so it does not reach a statement.
            continue;
          }
          const statement = list.statement(plan);
          if (statement === undefined) continue;
          const [, position] = /"organization_id" = \$(\d+)/.exec(statement.text) ?? [];
          assert.equal(statement.values[Number(position) - 1], '42', statement.text);
          assert.ok(!statement.text.includes(value), statement.text);
        }
      });
    }
  });
}

test('filters are described with the values that they accept', () => {
  const [things] = checkSources([
    {
      file: 'things.yaml',
      text: `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
  at: { type: timestamp, nullable: true }
  boss: { type: user, nullable: true }
  kind: { type: string, nullable: true, enum: [a, b] }
filters:
  - { field: at, operators: [eq, gt, gte] }
  - { field: boss, operators: [eq, is_null] }
  - { field: kind, operators: [ne, is_null] }
`,
    },
  ]);
  const described = new Map(filters.describe(things?.filters ?? []).map(({ name, ...rest }) => [name, rest]));
  const one = (description: string, schema: object) => ({
    ...{ in: 'query', description: `${description} An empty value is ignored.`, schema },
  });
  const several = (description: string, items: object) => ({
    ...one(description, { type: 'array', maxItems: 50, items }),
    ...{ style: 'form', explode: true },
  });
  const time = { type: 'string', format: 'date-time' };
  const words = { type: 'string', enum: ['true', 'false'] };
  const equal = (name: string) =>
    `Returns only records whose ${name} equals this value. Can be repeated to match any of several values.`;
  const empty = (name: string) =>
    `\`true\` returns only records without ${name}, \`false\` only records with ${name}.`;
  const day = 'A date such as 2026-03-01 stands for the';
  assert.deepEqual(Object.fromEntries(described), {
    at: several(equal('at'), time),
    'at[eq]': several(equal('at'), time),
    'at[gt]': one(
      `Returns only records whose at is greater or later than this value. ${day} end of the day in UTC.`,
      time,
    ),
    'at[gte]': one(
      `Returns only records whose at equals this value or is greater or later. ${day} start of the day in UTC.`,
      time,
    ),
    ...Object.fromEntries(
      ['boss', 'boss[eq]'].map((name) => [
        name,
        several(`${equal('boss')} \`me\` stands for the calling user.`, {
          type: ['integer', 'string'],
          format: 'int64',
        }),
      ]),
    ),
    'boss[is_null]': one(empty('boss'), words),
    'kind[ne]': several(
      'Returns only records whose kind differs from this value or is empty. Can be repeated to exclude several values.',
      { type: 'string', examples: ['a', 'b'], 'x-extensible-enum': ['a', 'b'] },
    ),
    'kind[is_null]': one(empty('kind'), words),
  });
});

test('long names in a request are truncated, and are not compared with known names', () => {
  const known = ['x'.repeat(60), 'y'];
  const hint = `Did you mean "${known[0]}"?`;
  assert.deepEqual(
    [60, 61].map((length) => hintForInput('X'.repeat(length), known)),
    [hint, undefined],
  );
  const fields = ['x'.repeat(40), 'y'];
  const messages = [40, 41].map((length) => unknownNameIssue('fields', 'X'.repeat(length), fields).message);
  const unknown = `Unknown field "${'X'.repeat(40)}" in "fields".`;
  assert.deepEqual(messages, [
    `${unknown} Did you mean "${fields[0]}"?`,
    `${unknown} Available fields: ${fields.join(', ')}`,
  ]);
});

test('no two parts use the same parameter', () => {
  for (const { definition } of resources) {
    const all = parts.flatMap(([name, part]) => part.parameters(definition[name]));
    assert.deepEqual([...new Set(all)], all);
  }
});

for (const [name, operator] of Object.entries(operators)) {
  const { needs, words, nullable } = operatorOf(name as OperatorName);
  test(`the operator ${name}: its condition names the column and contains no value`, () => {
    for (const { definition } of resources) {
      for (const field of definition.fields) {
        if (field.type[needs] === undefined) continue;
        for (const values of words?.map((word) => [word]) ?? [['7262'], ['7262', '7263']]) {
          const where = operator.where(field, {
            values,
            placeholder: () => '$7',
            visibleIds: () => undefined,
          });
          assert.ok(where.includes(`t."${field.name}"`), where);
          assert.equal(where.includes('$7'), words === undefined, where);
          assert.ok(!where.includes('726'), where);
          assert.doesNotMatch(where, /undefined| or /);
        }
        assert.ok(operator.describe(field).includes(field.name));
      }
    }
  });

  test(`the operator ${name}: rejects an unsuitable field with its location`, () => {
    const told = (options: string) =>
      issuesOf(`  p: { type: reference, to: things, nullable: true }
  b: ${options}
filters: [{ field: b, operators: [${name}] }]`);
    const lines = told('{ type: joined, through: p, show: [a] }');
    assert.deepEqual(lines, [`things.yaml:7:35  joined fields cannot be used as filters with "${name}"`]);
    if (nullable) {
      assert.deepEqual(told('{ type: string }'), [
        `things.yaml:7:35  "${name}" requires a field with "nullable: true"`,
      ]);
    }
  });
}
