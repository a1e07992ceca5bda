// Organizations on the command line: listing, renaming, exporting, and deleting with all of their rows.
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { listRows, tablesOf, transaction } from '../../engine/tables/index.ts';
import { keyRows } from '../../plugins/access/api-keys/keys.ts';
import { createOrganization, deleteOrganization } from '../../plugins/tenants/organizations/index.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, problemOf, readable, signIn } from '../support/forms.ts';
import { type Organization, onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { activityOf, command, makePerson } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { rowHashes } from '../support/reading.ts';
import { sourcesWith } from '../support/sources.ts';
import { untilWaiting } from '../support/uncommitted.ts';

/** Resources whose tables refer to each other in a circle. One table also refers to itself. */
const circle = [
  `singular: squad
common: all
fields:
  name: { type: string, description: Name. }
  captain_id: { type: reference, to: players, nullable: true, description: Who leads it. }
sort: { by: created_at, direction: desc }
`,
  `singular: player
common: all
fields:
  name: { type: string, description: Name. }
  squad_id: { type: reference, to: squads, nullable: true, description: Where they play. }
  mentor_id: { type: reference, to: players, nullable: true, description: Who helps them. }
sort: { by: created_at, direction: desc }
`,
].map((text, index) => ({ file: `resources/${['squads', 'players'][index]}.yaml`, text }));

const file = settingsFile({});
const sources = await sourcesWith(...circle);

onBothDrivers(
  'organizations',
  (instance, driver) => {
    let acme: Organization;
    let globex: Organization;
    const tables = () => tablesOf(instance().database);
    const run = (...args: string[]) => runCommand(instance(), args);

    /** Returns the number of the organization's rows in every table with an organization column. */
    const rowsOf = async ({ id }: Organization): Promise<Record<string, number>> => {
      const counts: Record<string, number> = {};
      for (const name of await tenantTables()) {
        const { rows } = await sql<{ count: string }>`
          select count(*) as count from ${sql.table(name)} where organization_id = ${id}`.execute(tables());
        counts[name] = Number(rows[0]?.count);
      }
      return counts;
    };
    const tenantTables = async (): Promise<readonly string[]> => {
      const { rows } = await sql<{ table_name: string }>`
        select table_name from information_schema.columns
        where column_name = 'organization_id' and table_schema = current_schema() order by 1`.execute(
        tables(),
      );
      return rows.map(({ table_name }) => table_name);
    };

    /** Inserts a row into each of these tables that is empty, whatever its columns are. */
    const fill = async ({ id, user }: Organization): Promise<void> => {
      const filled: Record<string, string> = {
        ...{ crm_organizations: id, crm_users: user },
        crm_memberships: user,
      };
      // Uses of names are stored every 30 seconds. The number of rows does not change if all of them exist.
      for (const { name, definition } of instance().resources) {
        const names = ['', ...definition.fields.map((field) => field.name)];
        await sql`insert into crm_name_uses (organization_id, key_id, resource, name, last_used_at)
          select k.organization_id, k.id, ${name}::text, u.name, now()
          from crm_api_keys k, unnest(${names}::text[]) u (name) where k.organization_id = ${id}
          on conflict do nothing`.execute(tables());
      }
      // The properties of custom fields are checked when they are read.
      await sql`insert into crm_custom_fields (organization_id, resource, name, type, options, created_at)
        values (${id}, 'leads', 'shoe_size', 'integer', '{}', now())`.execute(tables());
      const value = (type: string): unknown => {
        if (type.startsWith('timestamp')) return new Date();
        if (/int|numeric|double|xid/.test(type)) return '7';
        return type === 'boolean' ? false : `filled ${id}`;
      };
      const counts = await rowsOf({ id } as Organization);
      // A table can be filled once the tables it refers to have rows, so this takes several rounds.
      for (
        let remaining = (await tenantTables()).filter((name) => counts[name] === 0);
        remaining.length > 0;
      ) {
        const later: string[] = [];
        for (const name of remaining) {
          const { rows: columns } = await sql<{ name: string; type: string; target: string | null }>`
            select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, (
              select t.relname from pg_constraint k join pg_class t on t.oid = k.confrelid
              where k.conrelid = a.attrelid and k.contype = 'f' and a.attnum = any (k.conkey)
                and (a.attname <> 'organization_id' or t.relname = 'crm_organizations')
              limit 1) as target
            from pg_attribute a
            where a.attrelid = ${name}::regclass and a.attnum > 0 and not a.attisdropped and not a.atthasdef
              and (a.attnotnull or a.attname = 'organization_id') and a.attidentity = ''`.execute(tables());
          const row: Record<string, unknown> = {};
          for (const { name: column, type, target } of columns) {
            if (column === 'organization_id') row[column] = id;
            else if (target === null) row[column] = value(type);
            else row[column] = filled[target] ?? (await anyId(target, id));
          }
          try {
            await sql`insert into ${sql.table(name)} (${sql.join(Object.keys(row).map((each) => sql.ref(each)))})
              values (${sql.join(Object.values(row))})`.execute(tables());
          } catch (cause) {
            if (
              (cause as { code?: string }).code !== '23503' &&
              (cause as { code?: string }).code !== '23502'
            )
              throw cause;
            later.push(name);
          }
        }
        assert.ok(later.length < remaining.length, `no row can be inserted into ${later.join(', ')}`);
        remaining = later;
      }
    };
    const anyId = async (table: string, organization: string): Promise<unknown> => {
      const { rows } = await sql<{ id: string }>`
        select id from ${sql.table(table)} where organization_id = ${organization} limit 1`.execute(tables());
      return rows[0]?.id ?? null;
    };
    const post = async (path: string, body: object, { key } = acme): Promise<string> => {
      const { status, json, text } = await instance().call(`POST /api/v1/${path}`, { key, body });
      assert.equal(status, 201, text);
      return String(json.id);
    };

    before(async () => {
      acme = await instance().organization('acme');
      globex = await instance().organization('globex');
      for (const organization of [acme, globex]) {
        const squad_id = Number(await post('squads', { name: 'Reds' }, organization));
        const mentor_id = Number(await post('players', { name: 'Old', squad_id }, organization));
        await post('players', { name: 'Young', squad_id, mentor_id }, organization);
        const path = `PUT /api/v1/squads/${squad_id}`;
        const body = { name: 'Reds', captain_id: mentor_id };
        assert.equal((await instance().call(path, { key: organization.key, body })).status, 200);
        await fill(organization);
      }
    });

    test('lists organizations, including those without members, and renames them', async () => {
      const made = await run('org', 'create', 'abacus');
      const { json, text } = await run('org', 'list');
      const deleted = await run('org', 'delete', 'abacus', '--yes', 'abacus');
      assert.deepEqual(made.json, {
        ...{ id: deleted.json.id, slug: 'abacus', name: 'abacus', profiles: ['administrator', 'read-only'] },
      });
      assert.deepEqual(
        [made.text, deleted.text],
        [
          'Organization "abacus" created with the profiles administrator and read-only.',
          `Organization "abacus" deleted (${deleted.json.rows} rows). The slug stays reserved. If config.yaml names it, remove it there.`,
        ],
      );
      assert.deepEqual(
        (json.organizations as { slug: string; members: number }[]).map(({ slug, members }) => [
          slug,
          members,
        ]),
        [
          ['abacus', 0],
          ['acme', 1],
          ['globex', 1],
        ],
      );
      assert.match(text, /^id +slug +name +members +phone region +created\n/);
      const renamed = await run('org', 'rename', 'acme', '--name', 'Acme Ltd', '--slug', 'acme-ltd');
      assert.deepEqual(renamed.json, { id: acme.id, slug: 'acme-ltd', name: 'Acme Ltd' });
      assert.equal(renamed.text, '"acme" now has the slug "acme-ltd" and is called Acme Ltd.');
      assert.equal((await instance().call('GET /auth/me', { key: acme.key })).status, 200);
      await run('org', 'rename', 'acme-ltd', '--slug', 'acme');
      for (const [args, message] of [
        [['org', 'rename', 'acme'], /--name or --slug/],
        [['org', 'rename', 'acme', '--slug', 'globex'], /"globex" already exists/],
        [['org', 'rename', 'acme', '--slug', 'A b'], /is not a valid slug/],
        [['org', 'rename', 'acme', '--name', ' '], /name/],
        [['org', 'rename', 'nope', '--name', 'x'], /organization "nope" does not exist/],
      ] as const) {
        await assert.rejects(run(...args), message);
      }
    });

    for (const [slug, isValid] of [
      ['7', true],
      ['a--b', true],
      ['a'.repeat(63), true],
      ['a'.repeat(64), false],
      ['', false],
      ['-a', false],
      ['a-', false],
      ['a_b', false],
      ['a\n', false],
      ['ä', false],
    ] as const)
      test(`the slug ${JSON.stringify(slug)} is ${isValid ? '' : 'not '}valid`, async () => {
        const end = new Error('the end');
        const created = transaction(instance().database, async (tables) => {
          await createOrganization(tables, command(instance()), slug, 'A');
          throw end;
        });
        await assert.rejects(created, isValid ? end : /is not a valid slug/);
      });

    test('adds, shows and removes the grants of a profile', async () => {
      await run('profile', 'create', 'sales', '--org', 'acme', '--grant', 'leads:list,read');
      const granted = await run('profile', 'grant', 'sales', 'leads:update', 'leads:read', '--org', 'acme');
      assert.deepEqual(granted.json.grants, ['leads:list', 'leads:read', 'leads:update']);
      const revoked = await run('profile', 'revoke', 'sales', 'leads:list,update', '--org', 'acme');
      assert.deepEqual(revoked.json.grants, ['leads:read']);
      const list = await run('profile', 'list', '--org', 'acme');
      assert.match(list.text, /sales +leads:read$/m);
      const profiles = list.json.profiles as {
        readonly id: string;
        readonly name: string;
        readonly built_in: boolean;
        readonly grants: readonly string[];
      }[];
      assert.deepEqual(
        profiles.map(({ name, built_in, grants }) => [name, built_in, grants.length]),
        [
          ['administrator', true, 4],
          ['read-only', true, 2],
          ['sales', false, 1],
        ],
      );
      for (const { name, built_in, grants } of profiles) {
        const { json } = await run('profile', 'show', name, '--org', 'acme');
        assert.deepEqual([json.built_in, json.grants], [built_in, grants]);
      }
      for (const [args, message] of [
        [
          ['profile', 'revoke', 'sales', 'leads:delete', '--org', 'acme'],
          /does not have the grant leads:delete/,
        ],
        [['profile', 'grant', 'administrator', 'events:*', '--org', 'acme'], /cannot be changed/],
        [['profile', 'grant', 'sales', 'leads:fly', '--org', 'acme'], /action "fly" does not exist/],
      ] as const) {
        await assert.rejects(run(...args), message);
      }
      const { id: profile_id } = profiles.find(({ name }) => name === 'sales') ?? assert.fail();
      const former = { object: 'rockets', action: 'read:former' };
      await tables()
        .insertInto('crm_grants')
        .values({ organization_id: acme.id, profile_id, ...former })
        .execute();
      const cleaned = await run('profile', 'revoke', 'sales', 'rockets:read:former', '--org', 'acme');
      assert.deepEqual(cleaned.json.grants, ['leads:read']);
      await assert.rejects(
        run('profile', 'revoke', 'sales', 'rockets:read:former', '--org', 'acme'),
        /object "rockets" does not exist\. Available: /,
      );
      await run('profile', 'delete', 'sales', '--org', 'acme');
      await assert.rejects(
        run('profile', 'delete', 'sales', '--org', 'acme'),
        /profile "sales" does not exist/,
      );
    });

    test('a key created with --access is limited to that access, whatever its profile grants', async () => {
      const create = ['key', 'create', '--org', 'acme', '--profile', 'administrator', '--name', 'Reader'];
      for (const [access, status] of [
        ['read-only', 403],
        ['propose', 403],
        ['write', 201],
      ] as const) {
        const { json, text } = await run(...create, '--access', access);
        const key = String(json.key);
        assert.equal(json.access, access === 'write' ? undefined : access);
        const body = { last_name: 'Ames' };
        assert.equal((await instance().call('GET /api/v1/leads', { key })).status, 200);
        assert.equal((await instance().call('POST /api/v1/leads', { key, body })).status, status);
        const shown = access === 'write' ? 'administrator' : `administrator (${access})`;
        assert.ok(text.includes(` as ${shown}, without an expiry`), text);
        const list = (await run('key', 'list', '--org', 'acme')).text.split('\n').at(-1) ?? '';
        assert.match(list, new RegExp(`^${json.id} +Reader +${shown.replace(/[()]/g, '\\$&')} +…`));
      }
    });

    for (const [name, options, hours] of [
      ['without an overlap option', [], 24],
      ['with an overlap of two', ['--overlap', '2'], 2],
      ['with the maximum overlap', ['--overlap', '720'], 720],
    ] as const)
      test(`rotates a key ${name}: the old key expires in ${hours} hours, as the output says`, async () => {
        const old = await run('key', 'create', '--org', 'acme', '--profile', 'read-only');
        const next = await run('key', 'rotate', String(old.json.id), '--org', 'acme', ...options);
        assert.match(next.text, new RegExp(` expires in ${hours} hours\\. `));
        const keys = await listRows(tables(), keyRows, acme.id);
        const rowOf = ({ json }: typeof old) =>
          keys.find(({ id }) => id === json.id) ?? assert.fail(String(json.id));
        const overlapMs = Number(rowOf(old).expires_at) - Number(rowOf(next).created_at);
        assert.equal(Math.round(overlapMs / 3_600_000), hours);
        assert.equal(rowOf(next).expires_at, null);
      });

    test('rotates a key, with or without an overlap during which the old key works', async () => {
      const original = await run('key', 'create', '--org', 'acme', '--profile', 'read-only', '--name', 'old');
      const next = await run('key', 'rotate', String(original.json.id), '--org', 'acme');
      assert.deepEqual([next.json.name, next.json.replaces], ['old', original.json.id]);
      for (const { json } of [original, next]) {
        assert.equal((await instance().call('GET /auth/me', { key: String(json.key) })).status, 200);
      }
      const last = await run('key', 'rotate', String(next.json.id), '--org', 'acme', '--overlap', '0');
      assert.match(last.text, new RegExp(`replaces key ${next.json.id}, which expires now\\. `));
      await assert.rejects(
        run('key', 'rotate', String(next.json.id), '--org', 'acme'),
        /this key does not exist or is not live/,
      );
      for (const command of ['rotate', 'revoke'])
        await assert.rejects(run('key', command, 'old', '--org', 'acme'), {
          message: '"old" is not a key ID. "crm key list" lists all keys.',
        });
      for (const overlap of ['long', '721', '-1', '1.5', ''])
        await assert.rejects(
          run('key', 'rotate', '1', '--org', 'acme', '--overlap', overlap),
          new RegExp(`--overlap must be from 0 to 720 hours, not "${overlap}"`),
        );
    });

    test('in the browser, administrators can create and administer an organization if config.yaml allows it', async () => {
      const base = '/setup/organizations';
      const person = await makePerson(instance(), [{ organization: acme }], { verified: true });
      const browser = await signIn(instance(), person);
      const create = (slug: string) =>
        browser.submit(`${base}/new`, `${base}/new`, { name: 'New & Co', slug });
      assert.ok(!(await browser.get(base)).text.includes(`${base}/new`));
      assert.equal((await browser.get(`${base}/new`)).status, 403);
      const mayMake = async (who: 'nobody' | 'administrators') => {
        file.replace({ new_organizations: who });
        await until(async () => {
          const { status } = await browser.get(`${base}/new`);
          return (status === 200) === (who === 'administrators');
        }, 'take the settings');
      };
      await mayMake('administrators');
      assert.ok((await browser.get(base)).text.includes(`href="${base}/new"`));
      const conflict = await create('globex');
      assert.deepEqual(
        [conflict.status, problemOf(conflict)],
        [400, 'the organization "globex" already exists'],
      );
      assert.equal((await create('made')).headers.get('location')?.split('?')[0], base);
      assert.equal((await browser.get('/setup/o/made/keys')).status, 200);
      const [{ id = '' } = {}] = await tables()
        .selectFrom('crm_organizations')
        .select('id')
        .where('slug', '=', 'made')
        .execute();
      const grants = [{ object: 'leads', actions: ['read'] }] as const;
      const reader = await makePerson(instance(), [{ organization: acme, grants }], { verified: true });
      const other = await signIn(instance(), reader);
      assert.equal((await other.get(`${base}/new`)).status, 403, 'only administrators can create one');
      const unverified = await signIn(instance(), administratorOf(acme));
      const refused = await unverified.submit(`${base}/new`, `${base}/new`, { name: 'x', slug: 'x' });
      assert.equal(refused.status, 400);
      assert.match(
        problemOf(refused),
        /is unverified and can only belong to the organization that created it/,
      );
      await assert.rejects(run('org', 'rename', 'x', '--name', 'y'), /organization "x" does not exist/);
      await mayMake('nobody');
      assert.equal((await browser.post(`${base}/new`, { name: 'x', slug: 'x' })).status, 403);
      await deleteOrganization(instance().database, id);
    });

    test('in the browser, only administrators can rename, export and delete', async () => {
      const paged = await instance().organization('paged');
      const browser = await signIn(instance(), administratorOf(paged));
      const base = '/setup/organizations';
      const list = await browser.get(base);
      for (const what of ['rename', 'phone-numbers', 'export', 'delete']) {
        assert.ok(list.text.includes(`href="${base}/paged/${what}"`), what);
        // Another organization and a missing one return the same response.
        const [foreign, none] = [
          await browser.get(`${base}/acme/${what}`),
          await browser.get(`${base}/nope/${what}`),
        ];
        assert.deepEqual([foreign.status, none.status], [403, 403]);
        const mainOf = ({ text }: { text: string }) =>
          /<main.*<\/main>/s.exec(text)?.[0].replaceAll(/acme|nope/g, '');
        assert.equal(
          mainOf(foreign)?.replace(/[\w-]{10,}<\/code>/, ''),
          mainOf(none)?.replace(/[\w-]{10,}<\/code>/, ''),
        );
      }
      const grants = [{ object: 'leads', actions: ['read'] }] as const;
      const reader = await signIn(
        instance(),
        await makePerson(instance(), [{ organization: paged, grants }]),
      );
      const own = await reader.get(base);
      assert.ok(own.text.includes('href="/setup/o/paged"') && !own.text.includes(`${base}/paged/`));
      for (const what of ['rename', 'phone-numbers', 'export', 'delete'])
        assert.equal((await reader.get(`${base}/paged/${what}`)).status, 403, what);
      const _csrf = await reader.token('/setup/me');
      for (const what of ['rename', 'phone-numbers', 'delete']) {
        const sent = { _csrf, name: 'Mine', slug: 'paged', country: 'DE' };
        assert.equal((await reader.post(`${base}/paged/${what}`, sent)).status, 403, what);
      }
      const rename = (fields: Record<string, string>) =>
        browser.submit(`${base}/paged/rename`, `${base}/paged/rename`, fields);
      const conflict = await rename({ name: 'Paged & Co', slug: 'globex' });
      assert.deepEqual(
        [conflict.status, problemOf(conflict)],
        [400, 'the organization "globex" already exists'],
      );
      assert.ok(readable(conflict.text).includes('value="Paged & Co"'), 'the input is kept');
      assert.equal((await rename({ name: 'Paged & Co', slug: 'paged' })).status, 303);
      assert.ok(readable((await browser.get(base)).text).includes('Paged & Co'));
      // The session knows the new slug immediately.
      for (const [from, to] of [
        ['paged', 'paged-two'],
        ['paged-two', 'paged'],
      ] as const) {
        const page = `${base}/${from}/rename`;
        const moved = await browser.submit(page, page, { name: 'Paged & Co', slug: ` ${to} ` });
        assert.equal(moved.status, 303, problemOf(moved));
        assert.equal((await browser.get(`/setup/o/${to}`)).status, 200, to);
      }
      const exported = await browser.get(`${base}/paged/export`);
      assert.match(exported.headers.get('content-disposition') ?? '', /filename="paged\.ndjson"/);
      assert.equal(exported.headers.get('content-type'), 'application/x-ndjson; charset=utf-8');
      assert.match(exported.text, /^\{"kind":"organization","organization":\{.*"Paged & Co"/);
      assert.deepEqual(
        (await activityOf(instance(), paged.id))
          .filter(({ did }) => did.endsWith(` organization ${paged.id}`))
          .slice(-2)
          .map(({ actor, did }) => [actor, did]),
        ['update', 'export'].map((action) => [`user ${paged.user}`, `${action} organization ${paged.id}`]),
      );
      const remove = (slug: string) =>
        browser.submit(`${base}/paged/delete`, `${base}/paged/delete`, { slug });
      const response = await remove('acme');
      assert.deepEqual([response.status, problemOf(response)], [400, 'type “paged” to confirm the deletion']);
      const forged = await browser.post(`${base}/paged/delete`, { slug: 'paged' });
      assert.equal(forged.status, 403, 'a form without its token');
      assert.equal((await instance().call('GET /auth/me', { key: paged.key })).status, 200);
      const deleted = await remove('paged');
      assert.equal(deleted.headers.get('location'), `${base}?done=organization-deleted`);
      const gone = await browser.get('/setup/o/paged');
      assert.match(gone.headers.get('location') ?? '', /^\/setup\/login/, 'its user is deleted with it');
      assert.ok(Object.values(await rowsOf(paged)).every((rows) => rows === 0));
    });

    describe('export and delete', { concurrency: 1 }, () => {
      test('the export contains every record exactly, profiles, members and changes, but no secret', async () => {
        const folder = temporaryFolder();
        const file = join(folder.path, 'acme.ndjson');
        const exact = await post('opportunities', { name: 'Zoë\n☃', amount: 0.1 });
        const changed = await instance().call(`PATCH /api/v1/opportunities/${exact}`, {
          ...{ key: acme.key, body: { amount: 0.2 }, headers: { 'x-request-id': 'exported' } },
        });
        assert.equal(changed.status, 200, changed.text);
        const regions = [
          await run('org', 'phone-region', 'acme', 'none'),
          await run('org', 'phone-region', 'acme', 'de'),
        ];
        assert.deepEqual(
          regions.map(({ json, text }) => [json.phone_region, text]),
          [
            [null, 'Phone numbers of "acme" are compared only by their digits.'],
            ['DE', 'Phone numbers of "acme" without a country code belong to DE.'],
          ],
        );
        assert.equal((await activityOf(instance(), acme.id)).at(-1)?.did, `update organization ${acme.id}`);
        await sql`insert into crm_custom_fields (organization_id, resource, name, type, options, created_at, deleted_at)
          values (${acme.id}, 'leads', 'hat_size', 'integer', '{}', now(), now())`.execute(tables());
        const { json, text: output } = await run('org', 'export', 'acme', file);
        assert.equal(output, `Wrote ${json.bytes} bytes to ${file}.`);
        const text = readFileSync(file, 'utf8');
        assert.deepEqual([json.bytes, statSync(file).mode & 0o777], [Buffer.byteLength(text), 0o600]);
        const lines = text
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as Record<string, unknown> & { kind: string });
        const kinds = Map.groupBy(lines, ({ kind }) => kind);
        assert.deepEqual(
          [...kinds.keys()],
          ['organization', 'profile', 'member', 'team', 'custom_field', 'record', 'note', 'change'],
        );
        const [{ organization } = assert.fail()] = kinds.get('organization') ?? [];
        const { created_at, ...properties } = organization as Record<string, unknown>;
        assert.match(String(created_at), /^\d{4}-/);
        assert.deepEqual(properties, { id: acme.id, slug: 'acme', name: 'Acme Ltd', phone_region: 'DE' });
        assert.deepEqual(
          kinds.get('custom_field')?.map(({ custom_field: field }) => {
            const { name, deleted_at } = field as Record<string, unknown>;
            return [name, typeof deleted_at];
          }),
          [
            ['shoe_size', 'object'],
            ['hat_size', 'string'],
          ],
        );
        const changes = (kinds.get('change') ?? []).map(({ change }) => change as Record<string, unknown>);
        const [{ at, actor, before, after, ...change } = assert.fail(), ...more] = changes.filter(
          ({ request_id }) => request_id === 'exported',
        );
        assert.deepEqual(more, []);
        assert.match(String(at), /^\d{4}-/);
        const id = Number(exact);
        assert.deepEqual(change, {
          ...{ action: 'update', object: 'opportunities', id, request_id: 'exported', version: 2 },
        });
        const { id: actorId, ...caller } = actor as Record<string, unknown>;
        assert.deepEqual([typeof actorId, caller], ['number', { kind: 'key', name: 'admin' }]);
        const { name, amount } = after as Record<string, unknown>;
        assert.deepEqual([before, name, amount], [null, 'Zoë\n☃', 0.2]);
        const { text: recordText } = await instance().call(`GET /api/v1/opportunities/${exact}`, {
          key: acme.key,
        });
        assert.ok(
          text.includes(`{"kind":"record","resource":"opportunities","record":${recordText}}\n`),
          recordText,
        );
        const records = await rowsOf(acme);
        for (const { name } of instance().resources) {
          assert.equal(
            kinds.get('record')?.filter(({ resource }) => resource === name).length,
            records[name],
          );
        }
        assert.ok(text.includes('admin@acme.example') && !text.includes('globex'));
        assert.doesNotMatch(text, /password|hash|secret/);
        writeFileSync(file, 'mine');
        await assert.rejects(
          run('org', 'export', 'acme', file),
          /already exists. Pass --force to replace it./,
        );
        assert.equal(readFileSync(file, 'utf8'), 'mine');
        folder.remove();
      });

      test('the export contains every change and note in order, however many there are', async () => {
        const folder = temporaryFolder();
        const file = join(folder.path, 'long.ndjson');
        const long = await instance().organization('long');
        // More rows than one statement reads, and changes that are together larger than one statement reads.
        await sql`insert into crm_ledger (organization_id, actor_kind, action, object, object_id, version, record)
          select ${long.id}, 'command', 'create', 'leads', n, 1, case when n <= 3 then json_build_object('x', repeat('x', 2000000))::text end
          from generate_series(1, 1003) n`.execute(tables());
        await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text)
          select ${long.id}::bigint, 'leads', n, ${long.user}::bigint, n::text from generate_series(1, 1001) n`.execute(
          tables(),
        );
        await run('org', 'export', 'long', file);
        const lines = readFileSync(file, 'utf8')
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line) as { note?: { text: string }; change?: Record<string, unknown> });
        const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
        assert.deepEqual(
          lines.flatMap(({ note }) => (note ? [Number(note.text)] : [])),
          upTo(1001),
        );
        const changes = lines.flatMap(({ change }) => (change ? [change] : []));
        assert.deepEqual(
          changes.filter(({ version }) => version !== null).map(({ id }) => id),
          upTo(1003),
        );
        const exported = changes.filter(
          ({ action, object }) => action === 'export' && object === 'organization',
        );
        assert.deepEqual(
          exported.map(({ id, actor }) => [String(id), (actor as { kind: string }).kind]),
          [[long.id, 'command']],
          'the export itself is recorded',
        );
        folder.remove();
        await deleteOrganization(instance().database, long.id);
      });

      test("each organization's export contains its own profile for a member of several organizations", async () => {
        const folder = temporaryFolder();
        const actions = { acme: 'read', globex: 'list' } as const;
        const person = await makePerson(instance(), [
          { organization: globex, grants: [{ object: 'leads', actions: [actions.globex] }] },
          { organization: acme, grants: [{ object: 'leads', actions: [actions.acme] }] },
        ]);
        for (const [slug, action] of Object.entries(actions)) {
          await run('profile', 'create', 'same name', '--org', slug, '--grant', `leads:${action}`);
        }
        for (const [slug, action] of Object.entries(actions)) {
          const file = join(folder.path, `${slug}.ndjson`);
          await run('org', 'export', slug, file);
          const lines = readFileSync(file, 'utf8')
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line) as Record<string, Record<string, unknown>>);
          const grants = new Map(
            lines.flatMap(({ profile }) => (profile ? [[profile.name, profile.grants]] : [])),
          );
          const member = lines.find(({ member }) => member?.email === person.email)?.member;
          assert.deepEqual(grants.get(member?.profile), [`leads:${action}`], slug);
          assert.deepEqual(grants.get('same name'), [`leads:${action}`], slug);
        }
        folder.remove();
      });

      test('deletes nothing unless the slug is repeated', async () => {
        await assert.rejects(run('org', 'delete', 'acme', '--yes', 'globex'), /Nothing was changed/);
        await assert.rejects(
          run('org', 'delete', 'nope', '--yes', 'nope'),
          /organization "nope" does not exist/,
        );
        assert.equal((await instance().call('GET /auth/me', { key: acme.key })).status, 200);
      });

      test('deletes all rows of an organization and none of the others', async () => {
        const [mine, others] = [await rowsOf(acme), await rowsOf(globex)];
        await sql`update squads s set captain_id = (select min(id) from players p where p.organization_id = s.organization_id)
          where organization_id = ${globex.id}`.execute(tables());
        const hashes = await rowHashes(instance(), globex.id);
        for (const [name, rows] of Object.entries(mine)) assert.ok(rows > 0, `${name} has rows to delete`);
        const { json } = await run('org', 'delete', 'acme', '--yes', 'acme');
        assert.equal(
          json.rows,
          Object.values(mine).reduce((sum, rows) => sum + rows, 0),
        );
        assert.deepEqual(await rowsOf(acme), Object.fromEntries(Object.keys(mine).map((name) => [name, 0])));
        assert.deepEqual(await rowsOf(globex), others);
        assert.deepEqual(await rowHashes(instance(), globex.id), hashes);
        const { rows } = await sql<{ users: string }>`
          select count(*) as users from crm_users where id = ${acme.user}`.execute(tables());
        assert.equal(rows[0]?.users, '0', 'an unverified account belongs to the organization');
        await assert.rejects(
          run('org', 'rename', 'acme', '--name', 'x'),
          /organization "acme" does not exist/,
        );
        // Cached keys do not refer to the organization either.
        assert.equal((await instance().call('GET /api/v1/leads', { key: globex.key })).status, 200);
      });

      test('deletes more rows than one statement can, and completes an interrupted deletion', async () => {
        const big = await instance().organization('big');
        await sql`insert into crm_ledger (organization_id, actor_kind, action, object)
          select ${big.id}, 'command', 'create', 'x' from generate_series(1, 1001)`.execute(tables());
        await sql`delete from crm_memberships where organization_id = ${big.id}`.execute(tables());
        assert.ok((await deleteOrganization(instance().database, big.id)) > 1001);
        assert.equal(await deleteOrganization(instance().database, big.id), 0);
      });

      test('reports that rows are still being written', async () => {
        const busy = await instance().organization('busy');
        // The search path does not include the table's schema, so the deletion does not find its rows.
        await sql`create schema elsewhere`.execute(tables());
        await sql`create table elsewhere.visits (organization_id bigint references crm_organizations)`.execute(
          tables(),
        );
        await sql`insert into elsewhere.visits values (${busy.id})`.execute(tables());
        const deletion = () => deleteOrganization(instance().database, busy.id);
        await assert.rejects(deletion(), /the organization is still being written to\. Try again\./);
        await sql`drop schema elsewhere cascade`.execute(tables());
        assert.equal(await deletion(), 0);
      });

      if (driver === 'postgresql')
        test('access ends before records are deleted', async () => {
          const ending = await instance().organization('ending');
          await post('cases', { subject: 'x' }, ending);
          await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
            await client.query(`begin; select from cases where organization_id = ${ending.id} for update`);
            const deletion = deleteOrganization(instance().database, ending.id);
            await untilWaiting(client, 'the deletion to wait for the record');
            const { crm_api_keys, crm_memberships, cases } = await rowsOf(ending);
            await client.query('commit');
            await deletion;
            assert.deepEqual([crm_api_keys, crm_memberships, cases], [0, 0, 1]);
          });
        });

      if (driver === 'postgresql')
        for (const [table, statements] of [
          // The change log has no foreign key to the organization, whose row is deleted last, when its slug is reserved.
          [
            'crm_ledger',
            (id: string) => `lock table crm_former_slugs in share mode;
              insert into crm_ledger (organization_id, actor_kind, action, object) values (${id}, 'command', 'create', 'x')`,
          ],
          // The foreign key rejects the deletion of the organization's row.
          ['crm_teams', (id: string) => `insert into crm_teams (organization_id, name) values (${id}, 'x')`],
        ] as const)
          test(`deletes rows that requests write to ${table} concurrently`, async () => {
            const late = await instance().organization(`late-${table.replace('_', '-')}`);
            const { environment } = instance().config;
            await connected(String(environment.DATABASE_URL), async (client) => {
              await client.query(`begin; ${statements(late.id)}`);
              const deletion = deleteOrganization(instance().database, late.id);
              await untilWaiting(client, 'the deletion to wait');
              await client.query('commit');
              await deletion;
            });
            assert.deepEqual(new Set(Object.values(await rowsOf(late))), new Set([0]));
          });
    });
  },
  { sources, environment: file.environment },
);
