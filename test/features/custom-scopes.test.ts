// Values of custom fields in the history, the change feed, expansions and filters of a caller whose grants have scopes.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const field = 'description: A field.';
const sources = await sourcesWith(
  {
    file: 'shops.yaml',
    text: `
singular: shop
description: A shop.
common: all
custom_fields: true
fields:
  name: { type: string, ${field} }
  size: { type: integer, default: 1, ${field} }
scopes: { small: size < 10 }
sort: { by: id }
filters: [name]
`,
  },
  {
    file: 'shelves.yaml',
    text: `
singular: shelf
description: A shelf.
common: all
custom_fields: true
fields:
  shop_id: { type: reference, to: shops, nullable: true, ${field} }
  room: { type: integer, default: 1, ${field} }
scopes: { first: room == 1 }
sort: { by: id }
filters: [shop_id]
`,
  },
);

/** A change in the history or the change feed. */
interface Change {
  readonly id: number;
  readonly action: string;
  readonly before: { readonly custom?: unknown } | null;
  readonly after: { readonly custom?: unknown } | null;
}

onBothDrivers(
  'custom fields within scopes',
  (instance) => {
    let acme: Organization;
    let key: string;
    const send = async (request: string, body?: unknown, caller = acme.key) => {
      const [method, path = ''] = request.split(' ');
      const prefix = /^\/(fields|events)\b/.test(path) ? '' : '/api/v1';
      return instance().call(`${method} ${prefix}${path}`, {
        key: caller,
        ...(body !== undefined && { body }),
      });
    };
    const ok = async (...request: Parameters<typeof send>) => {
      const { status, json, text } = await send(...request);
      assert.ok(status < 300, `${request[0]}: ${text}`);
      return json;
    };
    const create = async (resource: string, body: object) => Number((await ok(`POST /${resource}`, body)).id);
    before(async () => {
      acme = await instance().organization('acme');
      for (const resource of ['shops', 'shelves'])
        await ok(`POST /fields/${resource}`, { name: 'code', type: 'string' });
      const actions = ['list', 'read', 'update'];
      const grants = [
        ...actions.map((action) => `shops:${action}:small`),
        ...actions.map((action) => `shelves:${action}:first`),
      ];
      ({ key } = await limitedKey(instance(), acme, grants));
    });
    const images = (changes: unknown) =>
      (changes as readonly Change[]).map(({ action, before: old, after }) => [
        action,
        old?.custom ?? null,
        after?.custom ?? null,
      ]);

    test('the history and the feed contain the values while the record is in the scope', async () => {
      const id = await create('shops', { custom: { code: 'first' } });
      for (const body of [
        { custom: { code: 'second' } },
        { size: 20, custom: { code: 'third' } },
        { custom: { code: 'hidden' } },
        { size: 2 },
      ])
        await ok(`PATCH /shops/${id}`, body);
      const complete = [
        ['create', null, { code: 'first' }],
        ['update', { code: 'first' }, { code: 'second' }],
        ['update', { code: 'second' }, { code: 'third' }],
        ['update', { code: 'third' }, { code: 'hidden' }],
        ['update', { code: 'hidden' }, { code: 'hidden' }],
      ];
      const limited = [
        ['create', null, { code: 'first' }],
        ['update', { code: 'first' }, { code: 'second' }],
        ['delete', { code: 'second' }, null],
        ['create', null, { code: 'hidden' }],
      ];
      const feed = async (caller: string) =>
        images(
          ((await ok('GET /events?resources=shops', undefined, caller)).data as readonly Change[]).filter(
            (change) => change.id === id,
          ),
        );
      await until(async () => (await feed(acme.key)).length === complete.length, 'appear in the feed');
      for (const [caller, changes] of [
        [acme.key, complete],
        [key, limited],
      ] as const) {
        assert.deepEqual(await feed(caller), changes);
        const { data } = await ok(`GET /shops/${id}/history`, undefined, caller);
        assert.deepEqual(images(data), changes.toReversed());
      }
    });

    test('expansions contain the values of visible records only', async () => {
      const [small, large] = [
        await create('shops', { custom: { code: 'small' } }),
        await create('shops', { size: 20, custom: { code: 'large' } }),
      ];
      const [inSmall, inLarge] = [
        await create('shelves', { shop_id: small, custom: { code: 'one' } }),
        await create('shelves', { shop_id: large, custom: { code: 'two' } }),
      ];
      await create('shelves', { shop_id: small, room: 2, custom: { code: 'three' } });
      const expanded = async (path: string) => (await ok(`GET ${path}`, undefined, key)).expanded;
      const shopOf = async (id: number) =>
        ((await expanded(`/shelves/${id}?expand=shop_id`)) as { shop_id: Change['after'] }).shop_id;
      assert.deepEqual((await shopOf(inSmall))?.custom, { code: 'small' });
      assert.equal(await shopOf(inLarge), null);
      const { shelves } = (await expanded(`/shops/${small}?expand=shelves`)) as {
        shelves: { data: readonly { custom: unknown }[] };
      };
      assert.deepEqual(
        shelves.data.map(({ custom }) => custom),
        [{ code: 'one' }],
      );
    });

    test('a filter does not find the value of another resource in a record with the same ID', async () => {
      for (const resource of ['shops', 'shelves']) {
        const text = `select setval(pg_get_serial_sequence('${resource}', 'id'), 7000)::text`;
        await instance().database.run({ name: '', text, values: [] });
      }
      const id = await create('shops', { name: 'Same ID', custom: { code: 'of the shop' } });
      assert.equal(await create('shelves', { custom: { code: 'of the shelf' } }), id);
      for (const [code, count] of [
        ['of%20the%20shop', 1],
        ['of%20the%20shelf', 0],
      ] as const) {
        const { data } = await ok(`GET /shops?custom.code=${code}`);
        assert.equal((data as readonly object[]).length, count, code);
      }
    });

    test('filters and exports do not find values of records outside the scope', async () => {
      const [small, large] = [
        await create('shops', { name: 'Small', custom: { code: 'same' } }),
        await create('shops', { name: 'Large', size: 20, custom: { code: 'same' } }),
      ];
      const idsOf = async (caller: string) =>
        ((await ok('GET /shops?custom.code=same', undefined, caller)).data as readonly { id: number }[]).map(
          ({ id }) => id,
        );
      assert.deepEqual(await idsOf(acme.key), [small, large]);
      assert.deepEqual(await idsOf(key), [small]);
      const counted = await instance().call('GET /api/v1/shops?custom.code=same', {
        key,
        headers: { prefer: 'count=estimated' },
      });
      assert.equal(counted.headers.get('x-total-count'), '1');
      const csv = await instance().call('GET /api/v1/shops?custom.code=same&fields=name,custom', {
        key,
        headers: { accept: 'text/csv' },
      });
      assert.equal(csv.text.replaceAll('\r', ''), `id,name,custom.code\n${small},Small,same\n`);
      const written = await send(`PATCH /shops/${large}`, { custom: { code: 'written' } }, key);
      assert.equal(written.status, 404);
    });
  },
  { sources },
);
