// Tenant isolation: whatever one organization's key requests, in any order, no response reveals another
// organization's data and none of its rows change.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { dataOf, exactRecord, numberText, rowHashes } from '../support/reading.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const definitions = checkSources(await sourcesWith());
const slugs = ['alpha', 'beta', 'gamma'] as const;
const perResource = 3;
/** Returns the marker in every string of an organization's records. */
const mark = (slug: string) => `marker-of-${slug}`;
const missing = '987654321';

/** Identifies a record by its organization, as the distance from the caller's (0), and its index. */
interface Pick {
  readonly distance: number;
  readonly place: number;
}

interface OneRecord {
  readonly kind: 'read' | 'delete';
  readonly resource: string;
  readonly record: Pick;
}
interface Write {
  readonly kind: 'create' | 'replace';
  readonly resource: string;
  readonly record: Pick;
  readonly links: readonly Pick[];
  /** The record whose ID, organization and owner the body claims. */
  readonly claims: Pick;
}
interface List {
  readonly kind: 'list';
  readonly resource: string;
  readonly sort: string;
  readonly dir: string;
  readonly page: number;
  readonly filterOf: Pick;
}
type Step = OneRecord | Write | List;

const pick: Arbitrary<Pick> = fc.record({ distance: fc.nat(2), place: fc.nat(perResource - 1) });
const resourceName = fc.constantFrom(...definitions.map(({ name }) => name));
const step: Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constantFrom('read' as const, 'delete' as const),
    resource: resourceName,
    record: pick,
  }),
  fc.record({
    kind: fc.constantFrom('create' as const, 'replace' as const),
    resource: resourceName,
    record: pick,
    links: fc.array(pick, { minLength: 2, maxLength: 2 }),
    claims: pick,
  }),
  fc.record({
    kind: fc.constant('list' as const),
    resource: resourceName,
    sort: fc.constantFrom(
      '',
      ...new Set(definitions.flatMap(({ fields }) => fields.map(({ name }) => name))),
    ),
    dir: fc.constantFrom('', 'asc', 'desc'),
    page: fc.integer({ min: -1, max: 3 }),
    filterOf: pick,
  }),
);
/**
 * Query parameters and headers that claim another organization. They do not affect the organization of a
 * key.
 */
const claimedOrganization = fc.constantFrom('', 'alpha', 'beta', 'gamma', '1', '2', '3', 'nowhere');

/** Returns the number of a resource's references. Resources without references are created first. */
const references = ({ fields }: (typeof definitions)[number]) =>
  fields.filter((field) => field.to !== undefined).length;

onBothDrivers('tenants', (instance) => {
  const organizations: Record<string, Organization> = {};
  /** IDs by organization and resource. The caller's own records can have been deleted. */
  const ids: Record<string, Record<string, string[]>> = {};

  before(async () => {
    for (const slug of slugs) {
      const organization = await instance().organization(slug);
      organizations[slug] = organization;
      ids[slug] = {};
      for (const { name, fields } of [...definitions].sort((a, b) => references(a) - references(b))) {
        const texts = fields.filter((field) => !field.readOnly && field.type.text !== undefined);
        const made: string[] = [];
        for (let place = 0; place < perResource; place++) {
          const body = Object.fromEntries([
            ...texts.map((field) => [field.name, `${mark(slug)} ${place}`]),
            ...fields
              .filter((field) => field.to !== undefined)
              .map((field) => [field.name, Number(ids[slug]?.[field.to ?? '']?.[place])]),
          ]);
          const answer = await instance().call(`POST /api/v1/${name}`, { key: organization.key, body });
          assert.equal(answer.status, 201, answer.text);
          made.push(numberText(exactRecord(answer.text).id));
        }
        const known = ids[slug];
        if (known !== undefined) known[name] = made;
      }
    }
  });
  const at = (caller: number, distance: number) => slugs[(caller + distance) % slugs.length] ?? 'alpha';
  const idOf = (caller: number, resource: string, { distance, place }: Pick) =>
    ids[at(caller, distance)]?.[resource]?.[place] ?? missing;

  /**
   * Returns a write's body: the caller's own text, links to the picked records, and another organization's
   * values for read-only fields.
   */
  function bodyOf(caller: number, { resource, links, claims }: Write): string {
    const fields = definitions.find(({ name }) => name === resource)?.fields ?? [];
    const linked = fields.filter((field) => field.to !== undefined);
    return JSON.stringify({
      ...Object.fromEntries(
        linked.map((field, index) => [
          field.name,
          Number(idOf(caller, field.to ?? '', links[index] ?? claims)),
        ]),
      ),
      ...Object.fromEntries(
        fields
          .filter((field) => field.type.text && !field.readOnly)
          .map(({ name }) => [name, `${mark(at(caller, 0))} again`]),
      ),
      id: Number(idOf(caller, resource, claims)),
      organization_id: Number(organizations[at(caller, claims.distance)]?.id),
      owner_id: Number(organizations[at(caller, claims.distance)]?.user),
    });
  }

  /** Asserts that a response does not contain another organization's data. */
  function assertNothingForeign(caller: number, answer: Answer): void {
    const own = organizations[at(caller, 0)];
    for (const distance of [1, 2]) {
      assert.ok(!answer.text.includes(mark(at(caller, distance))), answer.text);
    }
    if (answer.status >= 400) {
      assertErrorShape(answer);
      return;
    }
    if (answer.json.ok === true) return;
    for (const record of 'data' in answer.json ? dataOf(answer) : [exactRecord(answer.text)]) {
      assert.deepEqual(record.organization_id, { number: own?.id });
      for (const field of ['owner_id', 'created_by_id', 'last_modified_by_id']) {
        assert.ok(record[field] == null || numberText(record[field]) === own?.user, field);
      }
    }
  }

  type Send = (request: string, body?: string) => Promise<Answer>;

  /**
   * Returns a function that sends requests as the caller, claiming another organization in every possible
   * way.
   */
  const sender = (caller: number, claimed: string): Send => {
    const key = organizations[at(caller, 0)]?.key ?? '';
    const headers = { 'x-org-slug': claimed, 'x-organization-id': claimed };
    const org = claimed === '' ? '' : `org=${claimed}`;
    return async (request, body) => {
      const call = { key, headers, ...(body === undefined ? {} : { body }) };
      const answer = await instance().call(`${request}${request.includes('?') ? '&' : '?'}${org}`, call);
      assertNothingForeign(caller, answer);
      return answer;
    };
  };

  async function takeList(caller: number, one: List, send: Send): Promise<void> {
    const query = new URLSearchParams({ page: String(one.page) });
    if (one.sort !== '') query.set('sort', one.sort);
    if (one.dir !== '') query.set('dir', one.dir);
    const value = `${mark(at(caller, one.filterOf.distance))} ${one.filterOf.place}`;
    for (const name of ['status', 'rating', 'stage', 'organization_id', 'account_name']) {
      if (one.filterOf.place > 0) query.append(name, value);
    }
    const { status, text } = await send(`GET /api/v1/${one.resource}?${query}`);
    assert.ok(status === 200 || status === 400, text);
  }

  async function takeRecord(caller: number, one: OneRecord | Write, send: Send): Promise<void> {
    const path = `/api/v1/${one.resource}`;
    const body = 'links' in one ? bodyOf(caller, one) : undefined;
    if (one.kind === 'create') {
      const { status, text } = await send(`POST ${path}`, body);
      assert.ok(status === 201 || status === 400, text);
      return;
    }
    const { distance, place } = one.record;
    // One record of each organization must remain, so that there is something to protect.
    if (one.kind === 'delete' && distance === 0 && place === 0) return;
    const method = { read: 'GET', delete: 'DELETE', replace: 'PUT' }[one.kind];
    const answer = await send(`${method} ${path}/${idOf(caller, one.resource, one.record)}`, body);
    if (distance === 0) return;
    const none = await send(`${method} ${path}/${missing}`, body);
    assert.deepEqual(
      [answer.status, errorOf(answer)],
      [404, errorOf(none)],
      'foreign records look like missing ones',
    );
    assert.equal(none.status, 404);
  }

  test('shows and changes nothing of another organization in any sequence of requests', async () => {
    const sequence = fc.array(step, { minLength: 30, maxLength: 60, size: 'max' });
    await fc.assert(
      fc.asyncProperty(fc.nat(2), claimedOrganization, sequence, async (caller, claimed, steps) => {
        const others = [1, 2].map((distance) => organizations[at(caller, distance)]?.id ?? '');
        const hashes = () => Promise.all(others.map((id) => rowHashes(instance(), id)));
        const before = await hashes();
        const send = sender(caller, claimed);
        for (const one of steps) {
          await (one.kind === 'list' ? takeList(caller, one, send) : takeRecord(caller, one, send));
        }
        assert.deepEqual(await hashes(), before);
      }),
      { numRuns: 15 },
    );
    for (const slug of slugs) {
      const hashes = await rowHashes(instance(), organizations[slug]?.id ?? '');
      for (const hash of Object.values(hashes))
        assert.notEqual(hash, '0 ', 'other organizations still have records');
    }
  });

  test('rejects a reference to another organization’s record like one to a missing record', async () => {
    const linked = definitions.flatMap(({ name, fields }) =>
      fields
        .filter((field) => field.to !== undefined)
        .map((field) => ({ name, field: field.name, to: field.to ?? '' })),
    );
    assert.ok(linked.length >= 4);
    const fresh = await instance().organization('delta');
    for (const { name, field, to } of linked) {
      const { key } = fresh;
      const own = await instance().call(`POST /api/v1/${name}`, { key, body: {} });
      const path = `/api/v1/${name}/${numberText(exactRecord(own.text).id)}`;
      for (const request of [`POST /api/v1/${name}`, `PUT ${path}`]) {
        const [foreign, none] = await Promise.all(
          [ids.alpha?.[to]?.[0], missing].map(async (id) => {
            const answer = await instance().call(request, { key, body: { [field]: Number(id) } });
            assert.equal(answer.status, 400);
            // The message contains the ID that was sent.
            const text = JSON.stringify(errorOf(answer));
            assert.ok(text.includes(`${field} ${id} does not exist in ${to}`), text);
            return text.replaceAll(`${field} ${id} `, `${field} `);
          }),
        );
        assert.equal(foreign, none);
      }
      assert.equal((await instance().call(`GET ${path}`, { key })).json[field], null);
    }
  });

  test('shows no name from another organization for a link forced into the table', async () => {
    const { run } = instance().database;
    const { key, id } = await instance().organization('epsilon');
    const body = { subject: 'Forced' };
    const made = await instance().call('POST /api/v1/cases', { key, body });
    const path = `/api/v1/cases/${numberText(exactRecord(made.text).id)}`;
    const sql = (text: string, values: string[] = []) => run({ name: '', text, values });
    await sql('alter table cases disable trigger all');
    try {
      await sql(
        'update cases set account_id = $2::bigint, contact_id = $3::bigint where organization_id = $1::bigint',
        [id, ids.alpha?.accounts?.[0] ?? '', ids.alpha?.contacts?.[0] ?? ''],
      );
      for (const request of [
        `GET ${path}`,
        'GET /api/v1/cases',
        'GET /api/v1/cases?page=1&status=New',
        `GET ${path}?expand=account_id,contact_id`,
        'GET /api/v1/cases?expand=account_id,contact_id&fields=subject,account_name',
      ]) {
        const answer = await instance().call(request, { key });
        assert.equal(answer.status, 200);
        assert.ok(!answer.text.includes('marker-of'), answer.text);
      }
      const { expanded } = (await instance().call(`GET ${path}?expand=account_id,contact_id`, { key })).json;
      assert.deepEqual(expanded, { account_id: null, contact_id: null });
      const { account_name, contact_name } = (await instance().call(`GET ${path}`, { key })).json;
      assert.deepEqual([account_name, contact_name], ['', '']);
    } finally {
      await sql('update cases set account_id = null, contact_id = null where organization_id = $1::bigint', [
        id,
      ]);
      await sql('alter table cases enable trigger all');
    }
  });
});
