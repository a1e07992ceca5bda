// Random requests of test/properties/oracle.test.ts.
import {
  type Dice,
  kinds,
  pick,
  some,
  stages,
  type TargetName,
  thingCount,
  type World,
  words,
} from './oracle-world.ts';

/** A random request, without the organization. */
export interface RandomRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON object, or the lines of an import. */
  readonly body?: Readonly<Record<string, unknown>> | string;
  /** Whether the request was already sent with the same `Idempotency-Key`. */
  readonly isRepeated?: true;
}

/** Related records that can be expanded, by resource. */
const expansions = {
  things: [
    'parent_id',
    'subject',
    'keeper_id',
    'base_id',
    'owner_id',
    'created_by_id',
    'tag_ids',
    'parent_id.items',
    'tag_ids.things.tag_ids',
  ],
  groups: [
    'items',
    'things.subject',
    'things.keeper_id',
    'items.parent_id',
    'items.tag_ids',
    'items.subject',
  ],
  tags: [
    'things.tag_ids',
    'things.subject',
    'things.base_id',
    'things.tag_ids.parent_id',
    'things.tag_ids.tag_ids',
  ],
} as const;

/** Related records that a list rejects, because a page could contain too many of them. */
const tooLarge = new Set(['items.tag_ids', 'tag_ids.things.tag_ids', 'things.tag_ids.tag_ids']);

const filters = [
  'parent_id',
  'tag_ids',
  'tag_ids[any]',
  'tag_ids[all]',
  'tag_ids[ne]',
  'subject',
  'subject[in]',
  'stage',
  'custom.score[gte]',
  'trashed',
];

/** Groups, measures and conditions of aggregates. */
const groupNames = ['kind', 'amount', 'flag', 'parent_id', 'owner_id', 'subject', 'secret', 'created_at.day'];
const measureNames = ['count()', 'sum(amount)', 'avg(price)', 'min(doubled)', 'max(created_at)'];

const writes = [
  'POST /things',
  'PUT /things/{id}',
  'PATCH /things/{id}',
  'PATCH /things/batch',
  'POST /things/batch',
];

/** The kinds of requests that must be sent and accepted; see {@link kindsOf}. */
export const requiredKinds: readonly string[] = [
  ...filters.map((name) => `GET /things ${name}`),
  ...filters.map((name) => `GET /things/aggregate ${name}`),
  ...['parent_id', 'owner_id', 'subject', 'secret'].map((name) => `GET /things/aggregate group_by=${name}`),
  ...Object.entries(expansions).flatMap(([name, paths]) =>
    paths.flatMap((path) => [
      `GET /${name}/{id} expand=${path}`,
      ...(tooLarge.has(path) ? [] : [`GET /${name} expand=${path}`]),
    ]),
  ),
  ...writes.flatMap((operation) =>
    [
      ...['tag_ids', 'subject', 'parent_id', 'stage', 'custom'],
      ...(operation.endsWith('{id}') ? [] : ['keeper_id', 'base_id', 'label']),
    ].map((field) => `${operation} ${field}`),
  ),
  ...['keeper_id', 'base_id', 'label'].map((field) => `PATCH /things/{id} ${field}`),
  'POST /things/batch match',
  'POST /things/{id}/restore',
  ...['', ' match', ' on_error', ' dry_run'].map((parameter) => `POST /things/import${parameter}`),
  ...['POST /things', 'POST /things/batch'].flatMap((operation) =>
    ['idempotency-key', 'repeated'].map((part) => `${operation} ${part}`),
  ),
  ...['PUT', 'PATCH', 'DELETE'].map((method) => `${method} /things/{id} if-match tag`),
  'GET /things/{id} if-none-match',
  ...['POST /groups', 'PATCH /groups/{id}'].flatMap((operation) =>
    ['items', 'items.tag_ids', 'items.subject', 'items.keeper_id'].map((field) => `${operation} ${field}`),
  ),
  ...['items', 'items.id', 'items.stage'].map((field) => `PUT /groups/{id} ${field}`),
  'PATCH /groups/{id} items.stage',
  ...['things', 'groups', 'tags'].flatMap((name) => [
    `DELETE /${name}/{id}`,
    `DELETE /${name}/batch`,
    `GET /${name}/{id}/history`,
  ]),
  ...['resource', 'id'].map((parameter) => `GET /auth/permissions ${parameter}`),
  ...['', ' resources', ' after'].map((parameter) => `GET /events${parameter}`),
];

/** Returns the operation of a request, and the operation with each of its parameters, fields and conditions. */
export function kindsOf({
  method,
  path,
  headers = {},
  body = {},
  isRepeated,
}: RandomRequest): ReadonlySet<string> {
  const [route = '', query] = path.split('?');
  const operation = `${method} ${route.replace(/\d+/, '{id}')}`;
  const parameters = [...new URLSearchParams(query)].flatMap(([name, value]) =>
    name === 'expand' || name === 'group_by'
      ? value.split(',').map((relation) => `${name}=${relation}`)
      : [name],
  );
  const keysOf = (value: object, prefix = ''): string[] =>
    Object.entries(value).flatMap(([name, content]) => [
      `${prefix}${name}`,
      ...(name === 'items' ? (content as object[]).flatMap((item) => keysOf(item, 'items.')) : []),
    ]);
  const json = typeof body === 'string' ? {} : body;
  const { records = [] } = json as { readonly records?: readonly object[] };
  const fields = [...keysOf(json), ...records.flatMap((record) => keysOf(record))];
  const conditions = Object.entries(headers).map(([name, value]) =>
    name === 'if-match' && value !== '*' ? `${name} tag` : name,
  );
  const parts = [...parameters, ...fields, ...conditions, ...(isRepeated ? ['repeated'] : [])];
  return new Set([operation, ...parts.map((part) => `${operation} ${part}`)]);
}

/** Returns requests to the change feed. @param position a position in the feed of both organizations */
export const feedRequests = (position: string): readonly RandomRequest[] =>
  [
    '/events',
    '/events?resources=things',
    '/events?resources=groups,tags',
    `/events?after=${position}`,
    `/events?resources=things&after=${position}`,
  ].map((path) => ({ method: 'GET', path }));

/** Returns a random ID of a resource's record. */
export type IdOf = (resource: 'things' | TargetName) => number;

function randomReference(dice: Dice, idOf: IdOf): { readonly resource: TargetName; readonly id: number } {
  const resource = pick(dice, ['groups', 'tags'] as const);
  return { resource, id: idOf(resource) };
}

const referenceText = (dice: Dice, idOf: IdOf): string => {
  const { resource, id } = randomReference(dice, idOf);
  return `${resource}/${id}`;
};

/** Entity tags in previous responses, by path. */
export type Tags = ReadonlyMap<string, string>;

/** Returns a request that reads records, or the caller's permissions. */
export function randomRead(dice: Dice, idOf: IdOf, tags: Tags): RandomRequest {
  const resource = pick(dice, ['things', 'things', 'things', 'groups', 'tags'] as const);
  const id = idOf(resource);
  const tag = () => String(idOf('tags'));
  const names =
    resource === 'things'
      ? ['name', 'name,secret', 'parent_title', 'tag_ids', 'subject', 'number,label', 'custom,stage']
      : ['title', 'open'];
  const projection = [
    ['expand', some(dice, expansions[resource], 0.2).join() || pick(dice, expansions[resource])],
    ['fields', pick(dice, names)],
  ] as const;
  const parameters = [
    [
      'sort',
      pick(dice, [
        'id',
        'name',
        'kind',
        'amount',
        'price',
        'created_at',
        'owner_id',
        'secret',
        'flag',
        'doubled',
        'is_red',
        'number',
        'label',
        'stage',
      ]),
    ],
    ['dir', pick(dice, ['asc', 'desc'])],
    ['kind', pick(dice, kinds)],
    ['stage', pick(dice, stages)],
    ['custom.score[gte]', String(Math.floor(dice() * 10))],
    ['trashed', 'true'],
    ['amount[gte]', String(Math.floor(dice() * 8) - 2)],
    ['doubled[gte]', String(Math.floor(dice() * 16) - 4)],
    ['is_red', String(dice() < 0.5)],
    ['secret', 'secret 1'],
    ['owner_id', 'me'],
    ['parent_id', String(idOf('groups'))],
    ['tag_ids', tag()],
    ['tag_ids[any]', tag()],
    ['tag_ids[any]', tag()],
    ['tag_ids[all]', tag()],
    ['tag_ids[all]', tag()],
    ['tag_ids[ne]', tag()],
    ['subject', referenceText(dice, idOf)],
    ['subject[in]', referenceText(dice, idOf)],
    ['subject[in]', referenceText(dice, idOf)],
    ['q', pick(dice, words)],
    ['page', pick(dice, ['1', '2'])],
  ] as const;
  const throwOf = dice();
  const query = new URLSearchParams(
    [
      ...some<readonly [string, string]>(
        dice,
        throwOf < 0.55 && resource === 'things' ? parameters : [],
        0.1,
      ),
      ...some<readonly [string, string]>(dice, projection, 0.25),
    ].map(([name, value]): [string, string] => [name, value]),
  );
  if (throwOf < 0.55 && resource === 'things' && dice() < 0.3) {
    const conditions = some(dice, parameters, 0.1).map(([name, value]): [string, string] => [name, value]);
    const aggregate = new URLSearchParams([
      ...conditions,
      ['group_by', some(dice, groupNames, 0.2).slice(0, 3).join()],
      ['measure', some(dice, measureNames).join()],
      ...(dice() < 0.2 ? [['having[sum(amount)][gte]', '1'] as [string, string]] : []),
    ]);
    return { method: 'GET', path: `/things/aggregate?${aggregate}` };
  }
  if (throwOf < 0.55) {
    const counted = dice() < 0.5 ? { prefer: `count=${pick(dice, ['exact', 'estimated'])}` } : {};
    const accept = dice() < 0.15 ? { accept: pick(dice, ['text/csv', 'application/x-ndjson']) } : {};
    return { method: 'GET', path: `/${resource}?${query}`, headers: { ...counted, ...accept } };
  }
  if (throwOf < 0.86) {
    const path = `/${resource}/${id}?${dice() < 0.4 ? '' : query}`;
    const tag = tags.get(path);
    const headers = tag !== undefined && dice() < 0.5 ? { 'if-none-match': tag } : {};
    return { method: 'GET', path, headers };
  }
  if (throwOf < 0.91)
    return {
      method: 'GET',
      path: `/auth/permissions?resource=${resource}${dice() < 0.8 ? `&id=${id}` : ''}`,
    };
  return { method: 'GET', path: `/${resource}/${id}/history` };
}

/** Values that writes refer to. */
interface Written {
  /** The things that the caller can read, some of which lists of children contain. */
  readonly things: World['things'];
  /** Unique values of hidden things, which cause the same conflicts in both organizations. */
  readonly hiddenCodes: readonly string[];
  readonly tags: Tags;
}

/**
 * Returns a request that writes records.
 * @param count number of the request, for unique values
 */
export function randomWrite(
  dice: Dice,
  idOf: IdOf,
  { things, hiddenCodes, tags }: Written,
  count: number,
): RandomRequest {
  const id = idOf('things');
  const tagIds = () => Array.from({ length: Math.floor(dice() * 3) }, () => idOf('tags'));
  const values: readonly (readonly [field: string, share: number, value: () => unknown])[] = [
    ['kind', 0.5, () => pick(dice, kinds)],
    ['amount', 0.5, () => Math.floor(dice() * 12) - 4],
    ['flag', 0.3, () => dice() < 0.5],
    ['secret', 0.3, () => (dice() < 0.1 ? 'forbidden' : 'written')],
    ['owner_id', 0.3, () => null],
    ['tag_ids', 0.4, tagIds],
    ['subject', 0.3, () => (dice() < 0.2 ? null : randomReference(dice, idOf))],
    ['keeper_id', 0.25, () => (dice() < 0.3 ? null : idOf('groups'))],
    ['base_id', 0.25, () => (dice() < 0.3 ? null : idOf('tags'))],
    ['stage', 0.3, () => pick(dice, ['new', ...stages])],
    ['label', 0.2, () => (dice() < 0.3 ? null : pick(dice, words))],
    ['custom', 0.4, () => ({ score: dice() < 0.3 ? null : Math.floor(dice() * 10) })],
  ];
  /** Returns a name with one other value or, more likely to be rejected, many. */
  const own = (): Record<string, unknown> => {
    const selected = dice() < 0.5 ? [pick(dice, values)] : values.filter(([, share]) => dice() < share);
    return {
      name: `${pick(dice, words)} ${Math.floor(dice() * 100)}`,
      ...Object.fromEntries(selected.map(([field, , value]) => [field, value()])),
    };
  };
  const body = {
    ...own(),
    ...(dice() < 0.3 && { parent_id: idOf('groups') }),
    ...(dice() < 0.3 && { code: `new-${count}` }),
    ...(hiddenCodes.length > 0 && dice() < 0.1 && { code: pick(dice, hiddenCodes) }),
  };
  const [group, tag] = [idOf('groups'), idOf('tags')];
  const target = {
    title: `${pick(dice, words)} ${Math.floor(dice() * 100)}`,
    open: dice() < 0.6,
    ...(dice() < 0.2 && { owner_id: null }),
  };
  const children = things
    .filter(({ parent, trashed }) => parent === group && !trashed)
    .map((thing) => thing.id);
  /** Children that already exist, except some, and perhaps a thing of another group. */
  const existing = () => [...some(dice, children, 0.8), ...(dice() < 0.2 ? [id] : [])];
  const added = () => Array.from({ length: Math.floor(dice() * 3) }, () => own());
  const items = [...existing().map((child) => ({ ...own(), id: child })), ...added()];
  const strict = dice() < 0.2 ? { prefer: 'handling=strict' } : {};
  const condition = dice();
  const known = tags.get(`/things/${id}?`);
  const matching: Readonly<Record<string, string>> =
    condition < 0.1
      ? { 'if-match': '*' }
      : condition < 0.4 && known !== undefined
        ? { 'if-match': known }
        : {};
  const once = dice() < 0.3 ? { 'idempotency-key': `once-${count}` } : {};
  const on_error = pick(dice, ['stop', 'continue']);
  const ids = [id, ((id + 3) % thingCount) + 1];
  const lines = [
    { ...body, code: `batch-${count - 1}` },
    { kind: 'beta', code: `import-${count}` },
    { name: 'red', stage: 'done' },
  ];
  const imported = [
    ...(dice() < 0.5 ? ['match=code'] : []),
    ...(dice() < 0.5 ? [`on_error=${on_error}`] : []),
    ...(dice() < 0.2 ? ['dry_run=true'] : []),
  ];
  // A PUT without the stage sets it to its default, which is not allowed in every stage.
  const { stage } = things.find((thing) => thing.id === id) ?? {};
  const changes: readonly RandomRequest[] = [
    { method: 'POST', path: '/things', body, headers: { ...strict, ...once } },
    {
      method: 'PUT',
      path: `/things/${id}`,
      body: { ...(stage !== undefined && { stage }), ...body },
      headers: { ...strict, ...matching },
    },
    { method: 'PATCH', path: `/things/${id}`, body, headers: { ...strict, ...matching } },
  ];
  const choices: readonly RandomRequest[] = [
    ...changes,
    ...changes,
    {
      method: 'PATCH',
      path: '/things/batch',
      body: { records: ids.map((each) => ({ ...body, code: '', id: each })), on_error },
    },
    {
      method: 'POST',
      path: '/things/batch',
      body: { records: [{ ...body, code: `batch-${count}` }, { kind: 'alpha' }], on_error },
      headers: once,
    },
    {
      method: 'POST',
      path: '/things/batch',
      body: { records: [{ ...body, code: `batch-${count - 1}` }], match: ['code'], on_error },
    },
    { method: 'DELETE', path: `/things/${id}`, headers: matching },
    { method: 'DELETE', path: '/things/batch', body: { ids, on_error } },
    { method: 'POST', path: `/things/${id}/restore` },
    { method: 'POST', path: `/things/${id}/restore` },
    {
      method: 'POST',
      path: `/things/import${imported.length > 0 ? '?' : ''}${imported.join('&')}`,
      body: lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
      headers: { 'content-type': 'application/x-ndjson' },
    },
    {
      method: 'POST',
      path: `/things/import${imported.length > 0 ? '?' : ''}${imported.join('&')}`,
      body: `name,amount,code,parent_id,custom.score\nred,4,batch-${count - 1},${group},5\nblue,,import-${count},,\n`,
      headers: { 'content-type': 'text/csv', ...strict },
    },
    { method: 'POST', path: '/groups', body: { ...target, items: added() }, headers: strict },
    {
      method: 'PUT',
      path: `/groups/${group}`,
      body: { ...target, items },
      headers: { ...strict, ...matching },
    },
    { method: 'PATCH', path: `/groups/${group}`, body: { items }, headers: strict },
    { method: 'PATCH', path: `/groups/${group}`, body: { open: true, items: added() } },
    { method: 'PATCH', path: `/tags/${tag}`, body: target },
    { method: 'DELETE', path: `/groups/${group}` },
    { method: 'DELETE', path: `/tags/${tag}` },
    { method: 'DELETE', path: '/groups/batch', body: { ids: [group, tag], on_error } },
    { method: 'DELETE', path: '/tags/batch', body: { ids: [tag], on_error } },
  ];
  return pick(dice, choices);
}
