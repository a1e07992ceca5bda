// crm profile test: explains whether a profile allows a request, and crm profile show describes a profile.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { ownFiles } from '../support/own-files.ts';
import { crm, crmJson, migratedStorage, onDatabase } from '../support/process.ts';

for (const driver of drivers) {
  const own = ownFiles();
  let storage: Awaited<ReturnType<typeof migratedStorage>>;
  let environment: Readonly<Record<string, string>>;
  before(async () => {
    storage = await migratedStorage(driver);
    environment = { ...storage.environment, ...own.environment };
    own.add('leads', `${own.text('leads')}\nscopes:\n  own: owner_id == me\n`);
    await crmJson(['org', 'create', 'acme'], environment);
    const grants = ['leads:list', 'leads:read,update:own', 'contacts:list,create'];
    await crmJson(['profile', 'create', 'sales', '--org', 'acme', '--grant', ...grants], environment);
    await crmJson(['user', 'create', 'a@acme.example', '--org', 'acme', '--profile', 'sales'], environment);
    await onDatabase(storage.environment, (query) =>
      query(
        `insert into leads (organization_id, owner_id, created_at, updated_at)
         select o.id, u.id, now(), now() from crm_organizations o, (select id from crm_users union all select null) u (id) order by u.id nulls last`,
      ),
    );
  });
  after(async () => {
    await storage.remove();
    own.remove();
  });

  test(`a decision names the grant and the scope (${driver})`, async () => {
    const show = await crm(['profile', 'show', 'sales', '--org', 'acme'], environment);
    assert.match(show.stdout, /leads +list all, read own, update own/);
    const ids = (await crmJson(['profile', 'show', 'sales', '--org', 'acme'], environment)).grants;
    assert.deepEqual(ids, [
      'contacts:create',
      'contacts:list',
      'leads:list',
      'leads:read:own',
      'leads:update:own',
    ]);
    const onOwn = 'the profile grants leads:read on records in own';
    for (const [request, as, text] of [
      ['GET /api/v1/leads', false, 'Allowed: the profile grants leads:list on all records.'],
      ['QUERY /api/v1/leads', false, 'Allowed: the profile grants leads:list on all records.'],
      ['GET /api/v1/leads/1', true, `Allowed: ${onOwn}.`],
      [
        'GET /api/v1/leads/2',
        true,
        `Rejected with 404: ${onOwn}, but the record does not exist or is not one of them. The grant leads:read would allow it.`,
      ],
      [
        'GET /api/v1/leads/1/history',
        false,
        `Rejected with 404: ${onOwn}, but the record does not exist or is not one of them. The grant leads:read would allow it.`,
      ],
      [
        'GET /api/v1/contacts?expand=account_id',
        false,
        'Rejected with 403: the request also needs the grant accounts:read. The grant accounts:read would allow it.',
      ],
      ['POST /api/v1/contacts/import', false, 'Allowed: the profile grants contacts:create on all records.'],
      [
        'POST /api/v1/contacts/import?match=email',
        false,
        'Rejected with 403: the request also needs the grant contacts:update. The grant contacts:update would allow it.',
      ],
      [
        'DELETE /api/v1/leads/1',
        true,
        'Rejected with 403: the profile does not grant leads:delete. The grant leads:delete would allow it.',
      ],
    ] as const) {
      const member = as ? ['--as', 'a@acme.example'] : [];
      const { stdout, stderr } = await crm(
        ['profile', 'test', 'sales', ...request.split(' '), '--org', 'acme', ...member],
        environment,
      );
      assert.equal(stdout, `${text}\n`, `${request}: ${stderr}`);
    }
    const wrong = await crm(
      ['profile', 'test', 'sales', 'GET', '/api/v1/leeds', '--org', 'acme'],
      environment,
    );
    assert.match(wrong.stderr, /resource "leeds" does not exist\. Did you mean "leads"\?/);
  });
}
