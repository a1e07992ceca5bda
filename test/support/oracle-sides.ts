// Organizations of test/properties/oracle.test.ts: definitions, records, and requests whose responses can be compared.
import assert from 'node:assert/strict';
import { sql } from 'kysely';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { createKey } from '../../plugins/access/api-keys/keys.ts';
import { addExistingUser } from '../../plugins/access/identity/users.ts';
import { createProfile } from '../../plugins/access/profiles/profiles.ts';
import { exchange } from './http-client.ts';
import type { Instance } from './instance.ts';
import type { RandomRequest } from './oracle-requests.ts';
import {
  allowsSome,
  type CallerRights,
  type Rights,
  type Scope,
  type Sight,
  stages,
  storedGrants,
  type Thing,
  targetScopes,
  type World,
} from './oracle-world.ts';
import { command, logIn, makePerson, type Person } from './people.ts';
import { until } from './process.ts';

/**
 * IDs of organizations and of records created by requests are at least this high. Each
 * resource has a range of its own, because a new ID stands for a single record.
 */
const firstNewId = 100_000;

const targetYaml = `
common: all
scopes:
${Object.entries(targetScopes)
  .map(([name, { text }]) => `  ${name}: ${text}`)
  .join('\n')}
fields:
  title: { type: string }
  open: { type: boolean }
  owner_id: { assignable: true }
search: [title]
`;

/** Returns the definitions of the resources. */
export const definitionsWith = (scopes: Readonly<Record<string, Scope<Thing>>>) => [
  {
    file: 'things.yaml',
    text: `
common: all
trash: 30 days
custom_fields: true
checks:
  - { that: amount < 6 || flag, fields: [amount], message: Too much. }
  - { that: 'secret != "forbidden"', fields: [secret], message: Forbidden. }
scopes:
${Object.entries(scopes)
  .map(([name, { text }]) => `  ${name}: ${JSON.stringify(text)}`)
  .join('\n')}
fields:
  name: { type: string }
  kind: { type: string }
  amount: { type: int64, nullable: true }
  price: { type: number }
  flag: { type: boolean }
  code: { type: string, unique: true }
  parent_id: { type: reference, to: groups, nullable: true }
  parent_title: { type: joined, through: parent_id, show: [title] }
  tag_ids: { type: references, to: tags }
  subject: { type: reference, to: [groups, tags], nullable: true }
  keeper_id: { type: reference, to: groups, nullable: true, on_delete: restrict }
  base_id: { type: reference, to: tags, nullable: true, on_delete: cascade }
  number: { type: string, sequence: "T-{000}" }
  stage:
    type: string
    enum: [${stages.join()}]
    closed: true
    default: new
    initial: [open]
    transitions: { new: [open], open: { done: first, new: all } }
  label: { type: string, nullable: true, default_from: name }
  secret: { type: string, group: hush }
  doubled: { type: number, computed: amount * 2 }
  is_red: { type: boolean, computed: secret == "secret 1", group: hush }
  owner_id: { assignable: true }
search: [name]
sort: { by: created_at, direction: desc }
filters:
  - kind
  - parent_id
  - owner_id
  - stage
  - secret
  - { field: amount, operators: [gte] }
  - { field: doubled, operators: [gte, is_null] }
  - is_red
  - { field: tag_ids, operators: [eq, ne, any, all] }
  - { field: subject, operators: [eq, in] }
aggregates:
  group_by: [kind, amount, flag, parent_id, owner_id, subject, secret, is_red, created_at]
  measures: [amount, price, doubled, created_at]
`,
  },
  {
    file: 'groups.yaml',
    // A caller who sees the group's field would see the sum of hidden records, but no caller does.
    text: `singular: group${targetYaml.replace('  owner_id', '  amounts: { type: number, group: hush, rollup: { sum: amount, of: things, by: parent_id } }\n  owner_id')}children:\n  items: { of: things, by: parent_id, sort: name, writable: true }\n`,
  },
  { file: 'tags.yaml', text: `singular: tag${targetYaml}` },
];

/** The caller in one of the two organizations. */
export interface Side {
  readonly instance: Instance;
  readonly organization: string;
  /** The organization selected in URLs. Undefined for a key, which belongs to one organization. */
  readonly slug: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** The IDs of new records in the order in which responses contained them. */
  readonly newIds: Map<string, string>;
  /** The URL of the next page in the last response that had one. */
  next: string | undefined;
  /** Positions in the change feed. */
  positions: readonly string[];
}

/** Replaces the values that can differ between two organizations in any case: times, new IDs, request IDs and signatures. */
const comparable = (text: string, { slug, newIds }: Side): string =>
  text
    .replace(/"request_id":"[^"]*"/g, '"request_id":"…"')
    .replace(/2\d{3}-\d\d-\d\dT[\d:.]+Z/g, '…')
    .replace(/"(position|next)":"[^"]*"/g, '"$1":"…"')
    .replace(/cursor=[^&>]*/g, 'cursor=…')
    .replaceAll(`org=${slug}`, 'org=…')
    .replace(/\b\d{6,}\b/g, (id) => {
      const name = newIds.get(id) ?? `new ${newIds.size}`;
      newIds.set(id, name);
      return name;
    });

/** A response, and its parts that must be the same on both sides. */
export interface Exchange {
  readonly text: string;
  readonly tag: string | null;
  /**
   * Returns the parts to compare. New IDs are numbered in the order of the calls, so that several requests can be sent at the
   * same time.
   */
  readonly comparison: () => {
    readonly status: number;
    readonly tag: string | null;
    readonly total: string | null;
    readonly link: string;
    readonly text: string;
  };
}

/** Sends a request on behalf of the caller. */
export async function exchangeWith(
  side: Side,
  { method, path, headers = {}, body }: RandomRequest,
): Promise<Exchange> {
  const url = new URL(`${side.instance.url}${/^\/(auth|events)\b/.test(path) ? '' : '/api/v1'}${path}`);
  if (side.slug !== undefined) url.searchParams.set('org', side.slug);
  const {
    status,
    headers: answered,
    text,
  } = await exchange(url, {
    method,
    headers: {
      ...side.headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
  });
  const tag = answered.get('etag');
  return {
    text,
    tag,
    comparison: () => {
      const link = answered.get('link') ?? '';
      side.next = /<[^>]*\/api\/v1([^>]*)>; rel="next"/.exec(link)?.[1] ?? side.next;
      if (path.startsWith('/events'))
        side.positions = [...text.matchAll(/"(?:position|next)":"([^"]*)"/g)].map(([, each = '']) => each);
      return {
        status,
        tag,
        total: answered.get('x-total-count'),
        link: comparable(link, side),
        text: comparable(text, side),
      };
    },
  };
}

/** Waits until the change feed contains all changes in an organization. */
export const awaitFeed = ({ instance, organization }: Side): Promise<void> =>
  until(async () => {
    const { rows } = await sql`select from crm_ledger where organization_id = ${organization}::bigint
      and transaction >= pg_snapshot_xmin(pg_current_snapshot()) limit 1`.execute(
      tablesOf(instance.database),
    );
    return rows.length === 0;
  }, 'appear in the feed');

const getJson = async (side: Side, path: string) => {
  const { text, comparison } = await exchangeWith(side, { method: 'GET', path });
  return { status: comparison().status, json: JSON.parse(text) as Record<string, unknown> };
};

async function insertWorld(
  { database }: Instance,
  organization: string,
  { things, groups, tags }: World,
  users: Readonly<Record<'me' | 'other', string>>,
): Promise<void> {
  const tables = tablesOf(database);
  await sql`insert into crm_custom_fields (organization_id, resource, name, type, options)
    values (${organization}::bigint, 'things', 'score', 'integer', '{}'), (${organization}::bigint, 'things', 'mark', 'string', '{}')`.execute(
    tables,
  );
  const common = { id: 'bigint', owner_id: 'bigint', created_at: 'timestamptz', updated_at: 'timestamptz' };
  const insert = async (
    table: string,
    columns: Readonly<Record<string, string>>,
    rows: readonly object[],
  ) => {
    const types = Object.entries({ ...common, ...columns });
    const names = sql.raw(types.map(([name]) => name).join(', '));
    const typed = sql.raw(types.map((entry) => entry.join(' ')).join(', '));
    const values = rows.map((row) => {
      const { id, owner, trashed } = row as Thing;
      const created_at = new Date(Date.UTC(2026, 0, 1, 0, 0, id % 7));
      const _trashed_at = trashed ? created_at : null;
      return { ...row, owner_id: owner && users[owner], created_at, updated_at: created_at, _trashed_at };
    });
    await sql`insert into ${sql.table(table)} (organization_id, ${names})
      select ${organization}::bigint, ${names} from json_to_recordset(${JSON.stringify(values)}::json) as _r(${typed})`.execute(
      tables,
    );
  };
  for (const [table, rows] of Object.entries({ groups, tags }))
    await insert(table, { title: 'text', open: 'boolean' }, rows);
  await insert(
    'things',
    {
      ...{
        name: 'text',
        kind: 'text',
        amount: 'bigint',
        price: 'numeric',
        flag: 'boolean',
        code: 'text',
        secret: 'text',
        stage: 'text',
        label: 'text',
        number: 'text',
        custom: 'jsonb',
      },
      ...{ parent_id: 'bigint', keeper_id: 'bigint', base_id: 'bigint', _trashed_at: 'timestamptz' },
      ...{ tag_ids: 'bigint[]', subject_group_id: 'bigint', subject_tag_id: 'bigint' },
    },
    things.map(({ parent, tags: tag_ids, subject, keeper, base, score, ...rest }) => ({
      ...rest,
      number: `S-${rest.id}`,
      custom: score === null ? {} : { score },
      parent_id: parent,
      keeper_id: keeper,
      base_id: base,
      tag_ids,
      subject_group_id: subject?.resource === 'groups' ? subject.id : null,
      subject_tag_id: subject?.resource === 'tags' ? subject.id : null,
    })),
  );
}

const sorted = (ids: readonly number[]) => [...ids].sort((a, b) => a - b);
const idsIn = (records: unknown): number[] =>
  (records as readonly { readonly id: number }[]).map(({ id }) => id);
/** Returns the IDs in an expanded list. */
const listed = (list: unknown): number[] => idsIn((list as { readonly data: unknown }).data);

/** Compares responses with the model, before anything is written. */
export async function assertModel(
  side: Side,
  { things, groups, tags }: World,
  rights: CallerRights,
  sight: Sight,
) {
  const { can, canTarget, isReferenceVisible } = sight;
  const targets = { groups, tags };
  const expands = (['groups', 'tags'] as const).every((name) => allowsSome(rights, name, 'read'));
  const isListed = (thing: Thing) => can('list', thing) && !thing.trashed;
  const inList = things.filter(isListed);
  const assertList = async (path: string, list: readonly Thing[]) =>
    assert.deepEqual(
      idsIn((await getJson(side, `/things?sort=id&fields=id${path}`)).json.data),
      list.map(({ id }) => id).slice(0, 20),
    );
  await assertList('', inList);
  if (allowsSome(rights, 'things', 'restore'))
    await assertList(
      '&trashed=true',
      things.filter((thing) => thing.trashed && can('list', thing) && can('restore', thing)),
    );
  const { json: aggregate } = await getJson(side, '/things/aggregate?group_by=parent_id');
  const children = Map.groupBy(inList, ({ parent }) => parent);
  assert.deepEqual(
    new Map(
      (aggregate.data as readonly Record<string, number | null>[]).map((group) => [
        group.parent_id,
        group['count()'],
      ]),
    ),
    new Map([...children].map(([parent, members]) => [parent, members.length])),
  );
  const targetOf = (name: keyof typeof targets, id: number | null | undefined) =>
    targets[name].find((target) => target.id === id);
  const assertThing = async (thing: Thing) => {
    const { status, json } = await getJson(
      side,
      `/things/${thing.id}${expands ? '?expand=parent_id,tag_ids,subject' : ''}`,
    );
    assert.equal(status, can('read', thing) && !thing.trashed ? 200 : 404, JSON.stringify(thing));
    if (status === 404) return;
    const { parent, subject } = thing;
    const thingTags = tags.filter(({ id }) => thing.tags.includes(id));
    const group = targetOf('groups', parent);
    const title = group !== undefined && isReferenceVisible('groups', group) ? group.title : '';
    const visibleTags = thingTags.filter((tag) => isReferenceVisible('tags', tag)).map(({ id }) => id);
    assert.deepEqual([json.stage, json.custom], [thing.stage, { score: thing.score, mark: null }]);
    assert.deepEqual(
      [json.parent_id, json.parent_title, json.subject, json.tag_ids, json.keeper_id, json.base_id],
      [parent, title, subject, visibleTags, thing.keeper, thing.base],
    );
    if (!expands) return;
    const idIfRead = (name: keyof typeof targets, target: (typeof groups)[number] | undefined) =>
      target !== undefined && canTarget(name, 'read', target) ? target.id : undefined;
    const { parent_id, subject: about, tag_ids } = json.expanded as Record<string, { id: number } | null>;
    assert.deepEqual(
      [parent_id?.id, about?.id, idsIn(tag_ids)],
      [
        idIfRead('groups', group),
        subject ? idIfRead(subject.resource, targetOf(subject.resource, subject.id)) : undefined,
        visibleTags,
      ],
    );
  };
  const assertTarget = async (name: keyof typeof targets, target: (typeof groups)[number]) => {
    const relation = name === 'groups' ? 'items' : 'things.tag_ids';
    const { status, json } = await getJson(side, `/${name}/${target.id}?expand=${relation},things.subject`);
    assert.equal(
      status,
      canTarget(name, 'read', target) ? 200 : allowsSome(rights, name, 'read') ? 404 : 403,
    );
    if (status !== 200) return;
    const refers = ({ parent, tags: thingTags }: Thing) =>
      name === 'groups' ? parent === target.id : thingTags.includes(target.id);
    const expanded = json.expanded as Record<string, unknown>;
    for (const [key, isReferring] of [
      [relation, refers],
      ['things.subject', ({ subject }: Thing) => subject?.resource === name && subject.id === target.id],
    ] as const)
      assert.deepEqual(
        sorted(listed(expanded[key])),
        inList.filter(isReferring).map(({ id }) => id),
        key,
      );
  };
  const assertFilter = async (tag: (typeof tags)[number]) => {
    const { json } = await getJson(side, `/things?sort=id&fields=id&tag_ids=${tag.id}`);
    const found = isReferenceVisible('tags', tag)
      ? inList.filter((thing) => thing.tags.includes(tag.id))
      : [];
    assert.deepEqual(
      idsIn(json.data),
      found.map(({ id }) => id),
    );
  };
  await Promise.all([
    ...things.map(assertThing),
    ...groups.map((group) => assertTarget('groups', group)),
    ...tags.flatMap((tag) => [assertTarget('tags', tag), assertFilter(tag)]),
  ]);
}

/** The users to whom records belong, and the headers of requests by the caller. */
export interface People extends Readonly<Record<'me' | 'other', Person>> {
  readonly headers: Readonly<Record<string, string>>;
}

/** Creates the users, and reserves the IDs of the prepared records. */
export async function preparePeople(instance: Instance): Promise<People> {
  const tables = tablesOf(instance.database);
  for (const [index, table] of ['crm_organizations', 'things', 'groups', 'tags', 'crm_api_keys'].entries())
    await sql`select setval(pg_get_serial_sequence(${table}, 'id'), ${firstNewId * (index + 1)})`.execute(
      tables,
    );
  const organization = await instance.organization('first');
  const create = () => makePerson(instance, [{ organization }], { verified: true });
  const me = await create();
  return { me, other: await create(), headers: (await logIn(instance, me)).byToken };
}

/**
 * Creates an organization with the records of each world. The caller is a member with the rights or, if there are two, a key
 * with the first rights on behalf of a member with the second.
 */
export async function createSides(
  instance: Instance,
  { me, other, headers }: People,
  worlds: readonly (readonly [slug: string, world: World])[],
  [own, ofMember]: CallerRights,
): Promise<readonly Side[]> {
  const actor = command(instance);
  const sides: Side[] = [];
  for (const [slug, world] of worlds) {
    const { id: organization } = await instance.organization(slug);
    const key = await transaction(instance.database, async (tables) => {
      const profileWith = (name: string, rights: Rights) => {
        const grants = storedGrants(rights).map(
          ({ object, action }) => ({ object, actions: [action] }) as never,
        );
        return createProfile(tables, actor, organization, name, grants);
      };
      const profile = await profileWith('limited', own);
      const memberProfile = ofMember === undefined ? profile : await profileWith('member', ofMember);
      for (const { email } of [me, other])
        await addExistingUser(tables, actor, { email, organization, profile: memberProfile });
      if (ofMember === undefined) return undefined;
      const { plaintext } = await createKey(tables, actor, instance.config.keyPrefix, {
        ...{ organization, profile, name: 'caller', user: null, onBehalfOf: me.id, expiresAt: null },
      });
      return plaintext;
    });
    await insertWorld(instance, organization, world, { me: me.id, other: other.id });
    sides.push({
      ...{ instance, organization, next: undefined, positions: [] },
      slug: key === undefined ? slug : undefined,
      headers: key === undefined ? headers : { authorization: `Bearer ${key}` },
      newIds: new Map([[organization, 'organization']]),
    });
  }
  return sides;
}
