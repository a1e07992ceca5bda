// What the API description says about the fields of a resource, and about the actions of modules.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileResource } from '../../engine/compile/compile.ts';
import { recordExamples } from '../../engine/compile/examples.ts';
import type { AddedResponses } from '../../engine/compile/openapi.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { changeLog } from '../../engine/effects/change-log.ts';
import type { ModuleCode, ResourceAction } from '../../engine/records/index.ts';

type Json = Readonly<Record<string, unknown>>;

const head = `fields:
  id: { type: int64, read_only: true, set: id }
  organization_id: { type: int64, read_only: true, set: organization }
`;

const ofParts = /^parts: /;

/** Returns the description of things with these lines. Lines that start with `parts:` belong to parts. */
const fragmentOf = (
  lines: readonly string[],
  modules: readonly ModuleCode[] = [],
  added: readonly AddedResponses[] = [],
) => {
  const definitions = checkSources([
    {
      file: 'things.yaml',
      text: `${head}${lines.filter((line) => !ofParts.test(line)).join('\n')}\nsingular: thing\n`,
    },
    {
      file: 'parts.yaml',
      text: `${head}  thing_id: { type: reference, to: things, nullable: true }\n  amount: { type: number }\n  size: { type: integer }\nsingular: part\n${lines.flatMap((line) => (ofParts.test(line) ? [line.replace(ofParts, '')] : [])).join('\n')}\n`,
    },
  ]);
  const [, things] = compileResource(definitions, '/api/v1', [changeLog], added, modules);
  return things?.openApi ?? assert.fail();
};
/** Returns a schema of things with these lines. */
const schemaOf = (name: string, ...lines: readonly string[]) =>
  fragmentOf(lines).schemas?.[name] as Json & { readonly properties: Readonly<Record<string, Json>> };

describe('a field', () => {
  for (const [keys, described, input] of [
    [
      'type: string, enum: [a, b]',
      {
        type: 'string',
        description:
          'One of `a`, `b`. Any other string is also accepted, but filters and reports recognize only these values.',
        examples: ['a', 'b'],
        'x-extensible-enum': ['a', 'b'],
      },
    ],
    [
      'type: string, suggested: [a]',
      { type: 'string', description: 'Suggested: `a`.', examples: ['a'], 'x-extensible-enum': ['a'] },
    ],
    [
      'type: string, enum: [a, b], closed: true, nullable: true, label: Kind, description: The kind.',
      {
        type: ['string', 'null'],
        title: 'Kind',
        description: 'The kind. One of `a`, `b`.',
        enum: ['a', 'b', null],
      },
    ],
    [
      'type: string, enum: [a, b], closed: true, default: a',
      { type: 'string', description: 'One of `a`, `b`.', enum: ['a', 'b'] },
      {
        type: ['string', 'null'],
        description: 'One of `a`, `b`. Default: `a`.',
        enum: ['a', 'b', null],
      },
    ],
    [
      'type: string, enum: [a], closed: true, default: a, transitions: { a: [] }',
      {
        type: 'string',
        description: 'One of `a`. A new record can have `a`. The value cannot change.',
        enum: ['a'],
      },
      {
        type: ['string', 'null'],
        description: 'One of `a`. A new record can have `a`. The value cannot change. Default: `a`.',
        enum: ['a', null],
      },
    ],
    [
      'type: string, enum: [a, b], closed: true, default: a, initial: [b], transitions: { a: { b: own }, b: [a] }',
      {
        type: 'string',
        description:
          'One of `a`, `b`. A new record can have `a`, `b`. The value can change from `a` to `b` (only in the scope `own`); from `b` to `a`.',
        enum: ['a', 'b'],
      },
      {
        type: ['string', 'null'],
        description:
          'One of `a`, `b`. A new record can have `a`, `b`. The value can change from `a` to `b` (only in the scope `own`); from `b` to `a`. Default: `a`.',
        enum: ['a', 'b', null],
      },
    ],
    [
      'type: number, group: finance',
      { type: 'number', description: 'Visible and writable only with grants on the field group `finance`.' },
    ],
    [
      'type: number, computed: id * 2, group: finance',
      {
        type: ['number', 'null'],
        readOnly: true,
        description: 'Calculated: `id * 2`. Visible only with grants on the field group `finance`.',
      },
    ],
    [
      'type: number, rollup: { sum: amount, of: parts, by: thing_id, where: amount > 1 }',
      {
        type: 'number',
        readOnly: true,
        description:
          'Sum of `amount` of all `parts` that refer to the record through `thing_id` and meet `amount > 1`.',
      },
    ],
    [
      'type: number, rollup: { sum: amount, of: parts, by: thing_id }, group: finance',
      {
        type: 'number',
        readOnly: true,
        description:
          'Sum of `amount` of all `parts` that refer to the record through `thing_id`. Visible only with grants on the field group `finance`.',
      },
    ],
    ['type: string, help: Helps.', { type: 'string', description: 'Helps.' }],
    [
      'type: string, enum: [a, ""], closed: true',
      { type: 'string', description: 'One of `a`, ``.', enum: ['a', ''] },
      { type: ['string', 'null'], description: 'One of `a`, ``.', enum: ['a', '', null] },
    ],
    ['type: string, default: ""', { type: 'string' }],
    ['type: number, default: 0', { type: 'number' }],
    [
      'type: date, nullable: true, default_from: today',
      { type: ['string', 'null'] },
      {
        type: ['string', 'null'],
        description: 'Default in a new record: `today`. Null is stored as null.',
      },
    ],
    [
      'type: integer, rollup: { count: true, of: parts, by: thing_id }',
      {
        type: 'integer',
        readOnly: true,
        description: 'Number of all `parts` that refer to the record through `thing_id`.',
      },
    ],
    [
      'type: integer, rollup: { sum: size, of: parts, by: thing_id }',
      {
        type: ['integer', 'null'],
        readOnly: true,
        description: 'Sum of `size` of all `parts` that refer to the record through `thing_id`.',
      },
    ],
    ...(
      [
        ['min', 'Minimum'],
        ['max', 'Maximum'],
        ['avg', 'Average'],
      ] as const
    ).map(
      ([name, word]) =>
        [
          `type: number, rollup: { ${name}: amount, of: parts, by: thing_id }`,
          {
            type: ['number', 'null'],
            readOnly: true,
            description: `${word} of \`amount\` of all \`parts\` that refer to the record through \`thing_id\`.`,
          },
        ] as const,
    ),
    [
      'type: boolean, computed: id > 1',
      { type: 'boolean', readOnly: true, description: 'Calculated: `id > 1`.' },
    ],
    [
      'type: json, nullable: true, schema: { type: object }',
      { anyOf: [{ type: 'object' }, { type: 'null' }] },
      { anyOf: [{ type: 'object' }, { type: 'null' }] },
    ],
    [
      'type: json, required: true, schema: { type: object }',
      { anyOf: [{ type: 'object' }] },
      { anyOf: [{ type: 'object' }] },
    ],
  ] as const satisfies readonly (readonly [keys: string, described: Json, input?: Json])[])
    test(keys, () => {
      const lines = [`  a: { ${keys} }`, 'scopes: { own: id == 1 }'];
      const format = (schema: Json | undefined) => {
        const { format: _, minimum: __, maximum: ___, ...rest } = schema ?? {};
        return schema && rest;
      };
      const { type, readOnly }: Json = described;
      assert.deepEqual(format(schemaOf('Thing', ...lines).properties.a), described);
      const withNull = { ...described, type: [...new Set([type, 'null'].flat())] };
      const expected = input ?? (readOnly === true ? undefined : withNull);
      assert.deepEqual(format(schemaOf('ThingInput', ...lines).properties.a), expected);
    });

  test('with known values in a list describes its items', () => {
    const { a, b } = schemaOf(
      'Thing',
      '  a: { type: list, enum: [x] }',
      '  b: { type: list, enum: [x], closed: true }',
    ).properties;
    assert.ok(a && b);
    assert.equal(a.description, 'Values: `x`. Any other string is also accepted.');
    assert.deepEqual((a.items as Json)['x-extensible-enum'], ['x']);
    assert.equal(b.description, 'Values: `x`.');
    assert.deepEqual((b.items as Json).enum, ['x']);
  });

  test('with a schema that contains references is any JSON value', () => {
    for (const schema of [
      '{ $defs: { x: {} } }',
      '{ $id: "https://x.example/y" }',
      '{ items: { $ref: "#" } }',
      '{ $schema: "https://json-schema.org/draft/2020-12/schema" }',
    ])
      assert.equal(
        schemaOf('Thing', `  a: { type: json, nullable: true, schema: ${schema} }`).properties.a?.anyOf,
        undefined,
        schema,
      );
  });
});

test('related records are described by the kind of their relation', () => {
  const lines = [
    '  name: { type: string }',
    '  p: { type: reference, to: things, nullable: true }',
    '  ps: { type: references, to: things }',
    '  u: { type: user, nullable: true }',
    '  about: { type: reference, to: [things, parts], nullable: true }',
    'children: { rows: { of: things, by: p, sort: name } }',
  ];
  const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  const propertiesOf = (schema: Json | undefined) =>
    (schema?.properties ?? {}) as Readonly<Record<string, Json>>;
  const { expanded } = schemaOf('ThingProjection', ...lines).properties;
  const { p, ps, u, about, rows, parts, ...others } = propertiesOf(expanded);
  assert.deepEqual(
    [p, u],
    [{ anyOf: [ref('Thing'), { type: 'null' }] }, { anyOf: [ref('ReferencedUser'), { type: 'null' }] }],
  );
  assert.deepEqual(ps, { type: 'array', description: 'The records, ordered by ID.', items: ref('Thing') });
  assert.deepEqual(about?.anyOf, [ref('Thing'), ref('Part'), { type: 'null' }]);
  const dataOf = (list: Json | undefined) => propertiesOf(list).data;
  assert.deepEqual(dataOf(rows), {
    type: 'array',
    description: 'The first records that refer to this record, ordered by `name`.',
    maxItems: 20,
    items: ref('Thing'),
  });
  assert.deepEqual(
    [dataOf(parts)?.description, dataOf(parts)?.items],
    ['The first records that refer to this record, in their default order.', ref('Part')],
  );
  assert.deepEqual(Object.keys(others), ['things.ps', 'things.about']);
  assert.equal(schemaOf('ThingInput', ...lines).properties.ps?.maxItems, 100);
});

test('a record has a title, and its required fields are those that every caller sees', () => {
  const lines = [
    '  a: { type: string }',
    '  b: { type: string, group: g }',
    'label: { one: Loft, many: Lofts }',
  ];
  const record = schemaOf('Thing', ...lines, 'trash: 1 day');
  assert.deepEqual([record.title, record.required], ['Loft', ['id', 'organization_id', 'a']]);
  assert.equal(record.properties.trashed_at, undefined);
  const read = schemaOf('ThingProjection', ...lines, 'trash: 1 day');
  assert.deepEqual(
    [read.required, Object.keys(read.properties)],
    [['id'], ['id', 'organization_id', 'a', 'b', 'trashed_at', 'expanded']],
  );
  assert.equal(schemaOf('ThingProjection', ...lines).properties.trashed_at, undefined);
  assert.equal(fragmentOf(lines).tag?.['x-displayName'], 'Lofts');
  assert.equal(fragmentOf(['label: { one: Loft }']).tag?.['x-displayName'], undefined);
});

test('the operations of a former path have names of their own, and are deprecated', () => {
  const { paths = {} } = fragmentOf([
    'renamed_from: items',
    'alias: true',
    'deprecated: 2026-11-22',
    'sunset: 2027-06-30',
  ]);
  const operationsOf = (path: string) =>
    Object.entries(paths).flatMap(([template, item]) =>
      template.startsWith(`/api/v1/${path}`)
        ? Object.entries(item).flatMap(([method, operation]) =>
            method === 'parameters' ? [] : [operation as Json],
          )
        : [],
    );
  const current = operationsOf('things');
  assert.ok(current.length > 5);
  assert.deepEqual(
    operationsOf('items').map(({ operationId, deprecated }) => [operationId, deprecated]),
    current.map(({ operationId }) => [`${operationId}Formerly`, true]),
  );
  assert.ok(current.every(({ deprecated }) => deprecated === undefined));
});

test('examples meet the rules of their fields, and contain only optional fields that do not depend on the instance', () => {
  const [, definition] = checkSources([
    { file: 'parts.yaml', text: `${head}singular: part\n` },
    {
      file: 'things.yaml',
      text: `${head}  code: { type: string, min_length: 30, required: true }
  size: { type: integer, min: 10, max: 12, required: true }
  price: { type: money, currency: any, min: 20, required: true }
  cost: { type: money, currency: USD, max: 5, required: true }
  stage: { type: string, enum: [a, b], closed: true, required: true, initial: [b], transitions: { b: [a] } }
  mail: { type: string, format: email }
  tags: { type: list, enum: [x, y], closed: true }
  about: { type: reference, to: [parts, things], required: true, on_delete: restrict }
  boss: { type: user, required: true }
  helper: { type: user, nullable: true }
  never: { type: string, pattern: ^z$ }
  part_id: { type: reference, to: parts, nullable: true }
  data: { type: json, nullable: true, schema: { type: object, required: [floors] } }
singular: thing
`,
    },
  ]);
  assert.ok(definition);
  const required = {
    code: 'x'.repeat(30),
    size: 10,
    price: { amount: 20, currency: 'EUR' },
    cost: { amount: 5, currency: 'USD' },
    stage: 'b',
  };
  const references = { about: { resource: 'parts', id: 1 }, boss: 1 };
  const input = { ...required, mail: 'ada@engines.example', tags: ['x'], ...references };
  const { ThingInput, ThingPatch, ThingBatchPatch, ThingCsv, ThingNdjson, Thing } =
    recordExamples(definition);
  assert.deepEqual(ThingInput, input);
  assert.deepEqual(Object.keys(ThingInput as Json), Object.keys(input));
  assert.deepEqual([ThingPatch, ThingBatchPatch], [{ boss: 1 }, { records: [{ id: 1, boss: 1 }] }]);
  assert.deepEqual(Thing, {
    ...{ id: 1, organization_id: 1, ...input },
    ...{ helper: null, never: '', part_id: null, data: null },
  });
  assert.equal(ThingNdjson, `${JSON.stringify(input)}\n`);
  assert.equal(
    ThingCsv,
    `${Object.keys(input).join()}\r\n"${required.code}",10,"20 EUR","5","b","ada@engines.example","x","parts/1",1\r\n`,
  );
  const code = `${'x'.repeat(30)} "y"`;
  const sample = { code, size: 11, mail: 'grace@engines.example', never: 'z', data: { floors: 1 } };
  const sampled = recordExamples(definition, sample);
  assert.match(String(sampled.ThingCsv), /\r\n"x{30} ""y""",11,/);
  assert.deepEqual(sampled.ThingInput, {
    ...{ ...required, code, size: 11, mail: sample.mail, ...references },
    ...{ never: 'z', data: { floors: 1 } },
  });
});

describe('the errors of an operation', () => {
  const unique = '  code: { type: string, unique: true }';
  const closed = '  state: { type: string, enum: [a, b], closed: true, default: a, transitions: { a: [b] } }';
  const parent = '  parent_id: { type: reference, to: things, nullable: true, on_delete: ';
  const children = 'children: { rows: { of: things, by: parent_id, writable: true } }';
  const hooks = [{ name: 'acme', hooks: { parts: { beforeWrite: () => undefined } } }];
  for (const [name, lines, expected, modules] of [
    ['a resource without rules', [], { post: 'StillRunning' }],
    [
      'unique values',
      [unique, 'trash: 1 day'],
      { post: 'StillRunningOrDuplicate', put: 'Duplicate', patch: 'Duplicate', restore: 'Duplicate' },
    ],
    ['a sequence', ['  code: { type: string, sequence: "{0}" }'], { post: 'StillRunningOrDuplicate' }],
    [
      'transitions',
      [closed],
      { post: 'StillRunningOrRejected', put: 'InvalidTransition', patch: 'InvalidTransition' },
    ],
    [
      'transitions and unique values',
      [closed, unique],
      { post: 'StillRunningOrRejected', put: 'UpdateRejected', patch: 'UpdateRejected' },
    ],
    ['references that are cleared', [`${parent}clear }`], { post: 'StillRunning' }],
    [
      'references that prevent deletes',
      [`${parent}restrict }`],
      { post: 'StillRunning', delete: 'Referenced' },
    ],
    [
      'children that can be referenced',
      [`${parent}restrict }`, children],
      { post: 'StillRunning', put: 'Referenced', patch: 'Referenced', delete: 'Referenced' },
    ],
    [
      'children with unique values that can be referenced',
      [`${parent}restrict }`, children, unique],
      {
        ...{ post: 'StillRunningOrDuplicate', delete: 'Referenced' },
        ...{ put: 'DuplicateOrReferenced', patch: 'DuplicateOrReferenced' },
      },
    ],
    [
      'locks',
      ['locked: id == 1', 'trash: 1 day'],
      {
        ...{ post: 'StillRunning', put: 'LockedOrRejected', patch: 'LockedOrRejected' },
        ...{ delete: 'LockedOrRejected' },
      },
    ],
    [
      'locks of parents',
      ['locked: id == 1', 'trash: 1 day', `${parent}clear }`, children],
      {
        ...{ post: 'LockedOrRejected', put: 'LockedOrRejected', patch: 'LockedOrRejected' },
        ...{ delete: 'LockedOrRejected', restore: 'LockedOrRejected' },
      },
    ],
    // Moving a record to the trash does not change the records that refer to it.
    [
      'locks of records that refer to them',
      ['parts: locked: id == 1', 'trash: 1 day'],
      { post: 'StillRunning' },
    ],
    [
      'locks of records whose references are cleared',
      ['parts: locked: id == 1'],
      { post: 'StillRunning', delete: 'LockedOrRejected' },
    ],
    ['hooks', [], { post: 'StillRunning' }, hooks],
    ['scopes', ['scopes: { own: id == 1 }'], { post: 'StillRunning' }],
  ] as const satisfies readonly (readonly [
    string,
    readonly string[],
    Readonly<Record<string, string>>,
    (readonly ModuleCode[])?,
  ])[])
    test(name, () => {
      // Fields come before the keys of the resource.
      const sorted = lines.toSorted((a, b) => Number(b.startsWith(' ')) - Number(a.startsWith(' ')));
      const { paths = {} } = fragmentOf(sorted, modules);
      const responseOf = (path: string, method: string, status: number) => {
        const { responses } = (paths[`/api/v1/things${path}`]?.[method] ?? {}) as {
          readonly responses?: Readonly<Record<number, { readonly $ref?: string }>>;
        };
        return responses?.[status]?.$ref?.replace('#/components/responses/', '');
      };
      const conflicts = {
        post: responseOf('', 'post', 409),
        put: responseOf('/{id}', 'put', 409),
        patch: responseOf('/{id}', 'patch', 409),
        delete: responseOf('/{id}', 'delete', 409),
        restore: responseOf('/{id}/restore', 'post', 409),
      };
      assert.deepEqual(JSON.parse(JSON.stringify(conflicts)), expected);
      const isHooked = name === 'hooks';
      assert.deepEqual(
        [
          ...['put', 'get'].map((method) => responseOf('/{id}', method, 400)),
          ...['put', 'get'].map((method) => responseOf('/{id}', method, 500)),
          responseOf('/batch', 'post', 400),
          responseOf('/import', 'post', 400),
        ],
        [
          ...[isHooked ? 'BadRequestOrRejected' : 'BadRequest', 'BadRequest'],
          ...[isHooked ? 'FailureOfModule' : 'Failure', 'Failure'],
          isHooked ? 'BadBatchOrRejected' : 'BadBatch',
          isHooked ? 'BadImportOrRejected' : 'BadImport',
        ],
      );
      assert.equal(responseOf('', 'post', 404), name === 'scopes' ? 'NotFound' : undefined);
    });
});

test('children in bodies have a schema without the reference to their parent, but batches contain none', () => {
  const lines = [
    '  name: { type: string }',
    '  parent_id: { type: reference, to: things, nullable: true, renamed_from: top_id, alias: true, deprecated: 2026-11-22, sunset: 2027-06-30 }',
    'children: { rows: { of: things, by: parent_id, writable: true }, others: { of: parts, by: thing_id } }',
  ];
  const item = schemaOf('ThingRowsItem', ...lines);
  assert.deepEqual(Object.keys(item.properties), ['id', 'name']);
  assert.match(String(item.description), / The server sets `parent_id`\.$/);
  const { rows, others } = schemaOf('ThingInput', ...lines).properties;
  assert.deepEqual([rows?.items, others], [{ $ref: '#/components/schemas/ThingRowsItem' }, undefined]);
  const { properties } = schemaOf('ThingBatch', ...lines) as {
    readonly properties: { readonly records: { readonly items: { readonly properties: Json } } };
  };
  assert.deepEqual(Object.keys(properties.records.items.properties), ['name', 'parent_id', 'top_id']);
});

test('actions of modules are described with their input, output and statuses', () => {
  const action = (more: Partial<ResourceAction> = {}): ResourceAction => ({
    description: 'Does it.',
    run: () => undefined,
    ...more,
  });
  const modules = [
    {
      name: 'acme',
      actions: {
        things: {
          'call-back': action({ output: { type: 'string' }, input: { type: 'object', required: ['at'] } }),
          'clean-up': action({
            ofCollection: true,
            job: true,
            permission: 'own',
            input: { type: 'object' },
          } as Partial<ResourceAction>),
        },
      },
    },
  ];
  const added = {
    headers: { 'X-Added': { schema: { type: 'string' } } },
    errors: { 418: { description: 'Teapot.' } },
  };
  const post = (path: string, more: AddedResponses = added) => {
    const { paths = {} } = fragmentOf([], modules, [more]);
    const { post: operation } = paths[`/api/v1/things${path}`] ?? assert.fail(path);
    const { responses, ...rest } = operation as {
      readonly operationId: string;
      readonly summary: string;
      readonly description: string;
      readonly requestBody: Json;
      readonly responses: Readonly<Record<string, Json>>;
    };
    return { ...rest, responses, statuses: Object.keys(responses) };
  };
  const one = post('/{id}/actions/call-back');
  assert.deepEqual(
    [one.operationId, one.summary, one.description],
    ['callBackThing', 'Call back', 'Does it. Requires the `update` grant on `things`.'],
  );
  const bodyOf = (schema: Json, required: boolean) => ({
    required,
    content: { 'application/json': { schema } },
  });
  assert.deepEqual(one.requestBody, bodyOf({ type: 'object', required: ['at'] }, true));
  assert.deepEqual(one.responses[200]?.content, { 'application/json': { schema: { type: 'string' } } });
  const others = ['400', '401', '403', '409', '413', '418', '422', '500', '503'];
  assert.deepEqual(one.statuses, ['200', ...others, '404'].sort());
  const job = post('/actions/clean-up');
  assert.deepEqual(
    [job.operationId, job.description],
    ['cleanUpThings', 'Does it. Requires the `clean-up` grant on `things`.'],
  );
  assert.deepEqual(job.requestBody, bodyOf({ type: 'object' }, false));
  assert.deepEqual(job.statuses, ['202', ...others, '429'].sort());
  for (const name of ['Location', 'X-Added'])
    assert.ok(Object.hasOwn(job.responses[202]?.headers as Json, name), name);
  assert.ok(Object.hasOwn(one.responses[200]?.headers as Json, 'X-Added'));
  assert.deepEqual(job.responses[429], { $ref: '#/components/responses/TooManyJobs' });
  const limit = { description: 'Too fast.', headers: { RateLimit: { schema: { type: 'string' } } } };
  const limited =
    post('/actions/clean-up', { ...added, errors: { 429: limit } }).responses[429] ?? assert.fail();
  assert.equal(limited.description, 'Too fast. Or too many jobs of the organization are waiting.');
  assert.deepEqual(Object.keys(limited.headers as Json), ['Preference-Applied', 'RateLimit']);
  assert.deepEqual(
    post('/{id}/actions/call-back', { ...added, errors: { 429: limit } }).responses[429],
    limit,
  );
});
