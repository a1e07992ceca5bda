// Which API keys used which resources and fields, so that `crm plan` can report these keys before a resource
// or field is removed.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Fastify from 'fastify';
import { backgroundWork } from '../../engine/modules/background.ts';
import { everyGrant } from '../../engine/records/access.ts';
import { tablesOf } from '../../engine/tables/handle.ts';
import { usageModule } from '../../plugins/api/usage/index.ts';
import { findUsage, type UsedName, usageRetention } from '../../plugins/api/usage/usage.ts';
import { administratorOf } from '../support/forms.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { logIn } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

/** Orders that are written together with their lines. */
const orders = [
  {
    file: 'orders.yaml',
    text: 'renamed_from: purchases\nalias: true\ndeprecated: 2026-11-22\nsunset: 2027-06-30\ncommon: all\nfields:\n  title: { type: string }\n  total: { type: number }\n  note: { type: string }\nchildren:\n  lines: { of: order_lines, by: order_id, writable: true }\n',
  },
  {
    file: 'order_lines.yaml',
    text: 'singular: order_line\ncommon: all\nfields:\n  title: { type: string }\n  sku: { type: string }\n  order_id: { type: reference, to: orders, nullable: true }\n',
  },
];

for (const driver of drivers) {
  describe(`usage (${driver})`, { concurrency: 1 }, () => {
    let instance: Instance;
    let acme: Organization;
    before(async () => {
      instance = await startInstance(driver, { sources: await sourcesWith(people, ...orders) });
      acme = await instance.organization('acme');
    });
    after(() => instance.close());

    const uses = async (named: readonly UsedName[]) =>
      (await findUsage(tablesOf(instance.database), named)).map(({ organization, resource, field }) =>
        [organization, resource, field].filter((part) => part !== undefined).join(' '),
      );
    const fields = (resource: string, ...names: string[]) => names.map((field) => ({ resource, field }));

    test('records names in bodies, filters, order, fields, expand and match, separately for each organization', async () => {
      const beta = await instance.organization('beta');
      const call = async (key: string, request: string, body?: unknown, headers = {}) => {
        const path = request.replace(' ', ' /api/v1/');
        const { status, text } = await instance.call(path, { key, body, headers });
        assert.ok(status < 300, text);
      };
      await call(acme.key, 'POST leads', { company: 'x', unknown: 1 });
      await call(acme.key, 'GET leads?rating[in]=Hot&sort=source&fields=id,phone');
      await call(acme.key, 'GET opportunities?expand=account_id');
      await call(
        acme.key,
        'GET opportunities/aggregate?group_by=close_date.month,stage&measure=sum(probability)',
      );
      await call(acme.key, 'POST contacts/query', {
        where: {
          any: [
            { field: 'email', op: 'eq', value: 'a' },
            { not: { field: 'title', op: 'contains', value: 'b' } },
          ],
        },
        sort: '-last_name,first_name',
        fields: ['phone'],
      });
      await call(acme.key, 'POST people/batch', { records: [{ email: 'a@example.com' }], match: ['email'] });
      await call(acme.key, 'POST people/batch', {
        ...{ records: [{ name: 'without a code' }], match: ['code'], on_error: 'continue' },
      });
      const keys = tablesOf(instance.database).selectFrom('crm_api_keys').select('organization_id');
      assert.deepEqual(
        await keys.where('id', '=', beta.user).execute(),
        [{ organization_id: beta.id }],
        'a key has the ID of the user',
      );
      await call((await logIn(instance, administratorOf(beta))).token, 'GET cases?priority[in]=High');
      await call(acme.key, 'POST orders', { lines: [{ sku: 'a' }] });
      await call(acme.key, 'GET orders?fields=id,total', undefined, { accept: 'text/csv' });
      await call(acme.key, 'GET purchases?fields=title');
      await call(acme.key, 'POST purchases/query', { fields: ['note'] });
      await call(beta.key, 'GET leads?status=New');
      const deletedKey = await beta.makeKey();
      await call(deletedKey.key, 'GET leads?rating=Hot');
      await tablesOf(instance.database).deleteFrom('crm_api_keys').where('id', '=', deletedKey.id).execute();
      await instance.app.close();

      assert.deepEqual(await uses([{ resource: 'leads' }, { resource: 'cases' }]), [
        'acme leads',
        'beta leads',
      ]);
      const named = fields('leads', 'company', 'rating', 'source', 'phone', 'status', 'timezone', 'unknown');
      assert.deepEqual(await uses(named), [
        'acme leads company',
        'acme leads phone',
        'acme leads rating',
        'acme leads source',
        'beta leads status',
      ]);
      assert.deepEqual(
        await uses([
          ...fields('opportunities', 'account_id', 'amount', 'close_date', 'probability', 'stage'),
          ...fields('people', 'email', 'code', 'age'),
          ...['orders', 'order_lines', 'purchases'].flatMap((name) =>
            fields(name, 'title', 'total', 'note', 'sku'),
          ),
          ...fields('contacts', 'email', 'title', 'last_name', 'first_name', 'phone', 'department'),
        ]),
        [
          'acme contacts email',
          'acme contacts first_name',
          'acme contacts last_name',
          'acme contacts phone',
          'acme contacts title',
          'acme opportunities account_id',
          'acme opportunities close_date',
          'acme opportunities probability',
          'acme opportunities stage',
          'acme order_lines sku',
          'acme orders total',
          'acme people code',
          'acme people email',
          'acme purchases note',
          'acme purchases title',
        ],
      );
    });

    test('a name is stored once a day, within 30 seconds', async (context) => {
      const { id } = await acme.makeKey();
      const tables = tablesOf(instance.database);
      const now = Date.parse('2027-03-01T12:00:00Z');
      context.mock.timers.enable({ apis: ['setInterval', 'Date'], now });
      const app = Fastify();
      app.decorate('retentionRules', []).decorate('background', backgroundWork());
      await usageModule.register?.(app, { database: instance.database });
      const use = (...names: readonly string[]) => {
        const principal = { kind: 'key', actor: id, name: null, user: null, grants: everyGrant } as const;
        app.namesSent?.({ ...principal, organization: acme.id }, 'leads', names);
        context.mock.timers.tick(30_000);
      };
      /** Returns the names that were stored since they were reset. */
      const recent = async () => {
        const rows = await tables
          .selectFrom('crm_name_uses')
          .select('name')
          .where('key_id', '=', id)
          .where('last_used_at', '>', new Date(0))
          .orderBy('name')
          .execute();
        return rows.map(({ name }) => name).join();
      };
      try {
        use('status');
        await until(async () => (await recent()) === ',status', 'store the name');
        await tables
          .updateTable('crm_name_uses')
          .set({ last_used_at: new Date(0) })
          .where('key_id', '=', id)
          .execute();
        use('status', 'rating');
        await until(async () => (await recent()) === 'rating', 'store the other name');
        context.mock.timers.tick(12 * 3_600_000);
        use('status');
        await until(async () => (await recent()) === ',rating,status', 'store the name on the next day');
      } finally {
        await app.close();
      }
    });

    test('expires after thirty days', async () => {
      const sql = (text: string) => instance.database.run({ name: '', text, values: [] });
      await sql(`update crm_name_uses set last_used_at = now() - interval '31 days' where name = 'company'`);
      await sql(`update crm_name_uses set last_used_at = now() - interval '29 days' where name = 'source'`);
      assert.deepEqual(await uses(fields('leads', 'company', 'source')), ['acme leads source']);
      assert.equal(await usageRetention(tablesOf(instance.database)), 1);
    });
  });
}
