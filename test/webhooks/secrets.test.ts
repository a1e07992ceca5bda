// Secrets at rest: encrypted with the first of AUTH_SECRETS, decrypted with any, and re-encrypted when the
// first changes.

import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { storeTotp } from '../../plugins/access/second-factor/codes.ts';
import { secretsCheck } from '../../plugins/access/secrets/check.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { cachedOpener, renewSecrets, sealing } from '../../plugins/access/secrets/sealing.ts';
import { changeSecrets, openIntegration, sealedColumns } from '../../webhooks/inbox/integrations.ts';
import { type Organization, onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { dumped, integrate } from '../support/partners.ts';
import { command, makePerson, secondNode } from '../support/people.ts';
import { connected } from '../support/postgres.ts';
import { untilWaiting } from '../support/uncommitted.ts';

const [old, young] = [
  'an old secret of more than 32 characters',
  'a young secret of more than 32 characters',
] as const;

test('an opened secret is cached, but a failure is not', async () => {
  let attempts = 0;
  const sealer = sealing(instanceSecrets({ authSecrets: [old], dataFolder: '' }));
  const { open } = cachedOpener({
    ...sealer,
    open: async (sealed) => {
      if (++attempts === 1) throw new Error('not yet');
      return sealer.open(sealed);
    },
  });
  const [one, other] = [await sealer.seal('one'), await sealer.seal('other')];
  await assert.rejects(open(one), /not yet/);
  assert.deepEqual([await open(one), await open(one), await open(other)], ['one', 'one', 'other']);
  assert.equal(attempts, 3);
});

onBothDrivers(
  'secrets at rest',
  (instance, driver) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
    });
    const tables = () => tablesOf(instance().database);
    const sealedWith = (...authSecrets: string[]) =>
      sealing(instanceSecrets({ ...instance().config, authSecrets }));
    const open = (id: string, ...authSecrets: string[]) =>
      openIntegration(tables(), sealedWith(...authSecrets), { organization: acme.id, id });

    test('rotating AUTH_SECRETS: add a new secret in front, restart, remove the old one', async () => {
      const { id, secret, token } = await integrate(instance(), acme, 'meta-lead-ads');
      assert.equal((await open(id, old))?.secret, secret);
      await assert.rejects(open(id, young), /AUTH_SECRETS has changed/);
      const people = [
        await makePerson(instance(), [{ organization: acme }]),
        await makePerson(instance(), [{ organization: acme }]),
      ];
      for (const person of people)
        await storeTotp(tables(), person.id, {
          sealed: await sealedWith(old).seal(`app of ${person.id}`),
          step: 0,
        });
      const { id: profile_id } = await tables()
        .selectFrom('crm_profiles')
        .select('id')
        .where('organization_id', '=', acme.id)
        .limit(1)
        .executeTakeFirstOrThrow();
      const subscription = await tables()
        .insertInto('crm_event_subscriptions')
        .values({
          ...{ organization_id: acme.id, profile_id, url: 'https://a.example/', actions: '', filter: '' },
          ...{ state: 'off', failing_since: null, epoch: '', transaction: '1', ledger_id: '0' },
          secret: await sealedWith(old).seal('signing secret'),
          previous_secret: await sealedWith(old).seal('previous signing secret'),
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      const node = await secondNode(instance(), { authSecrets: [young, old] });
      await node.close();
      const opened = await open(id, young);
      assert.deepEqual([opened?.secret, opened?.token], [secret, token]);
      const signing = await tables()
        .selectFrom('crm_event_subscriptions')
        .select(['secret', 'previous_secret'])
        .where('id', '=', subscription.id)
        .executeTakeFirstOrThrow();
      assert.deepEqual(
        await Promise.all([signing.secret, signing.previous_secret].map(sealedWith(young).open)),
        ['signing secret', 'previous signing secret'],
      );
      await assert.rejects(open(id, old), /AUTH_SECRETS has changed/);
      const apps = await tables().selectFrom('crm_totps').select('secret').orderBy('user_id').execute();
      assert.deepEqual(
        await Promise.all(apps.map(({ secret: sealed }) => sealedWith(young).open(sealed))),
        people.map((person) => `app of ${person.id}`),
      );
      assert.deepEqual(
        await renewSecrets(tables(), sealedWith(young), 'crm_integrations', sealedColumns),
        [],
        'nothing is left to do',
      );
    });

    test('a secret that cannot be decrypted is reported, left unchanged and can be entered again', async () => {
      const { id } = await integrate(instance(), acme, 'telegram');
      const strange = sealedWith('some other secret of 32 characters.');
      const before = await dumped(instance(), 'crm_integrations');
      assert.ok((await renewSecrets(tables(), strange, 'crm_integrations', sealedColumns)).includes(id));
      assert.equal(await dumped(instance(), 'crm_integrations'), before);
      const lines = await logged(async () => {
        const node = await secondNode(instance(), { authSecrets: ['some other secret of 32 characters.'] });
        await node.close();
      });
      const lost = lines.filter(({ msg }) => /^some stored secrets cannot be decrypted/.test(String(msg)));
      const idsOf = (table: string) => lost.flatMap((line) => (line[table] ?? []) as string[]);
      assert.ok(idsOf('integrations').includes(id));
      const users = await tables().selectFrom('crm_totps').select('user_id').execute();
      assert.deepEqual(idsOf('totps').toSorted(), users.map(({ user_id }) => user_id).sort());
      assert.ok(lost.every(({ level }) => level === 50));
      assert.equal(await dumped(instance(), 'crm_integrations'), before);
      const newSecrets = { secret: 'entered again', token: 'and this' };
      await changeSecrets(tables(), command(instance()), strange, acme.id, id, newSecrets);
      const again = await openIntegration(tables(), strange, { organization: acme.id, id });
      assert.equal(again?.secret, 'entered again');
    });

    test('a node starts even if stored secrets cannot be read', async () => {
      const lines = await logged(async () => {
        await sql`alter table crm_totps rename to crm_moved`.execute(tables());
        try {
          await (await secondNode(instance())).close();
        } finally {
          await sql`alter table crm_moved rename to crm_totps`.execute(tables());
        }
      });
      const warnings = lines.filter(({ msg }) => msg === 'failed to read stored secrets');
      assert.deepEqual(
        warnings.map(({ level, code }) => [level, code]),
        [[40, '42P01']],
      );
    });

    test('crm doctor reports an instance whose own secret is missing, invalid or only on one machine', async () => {
      const folder = temporaryFolder();
      const file = join(folder.path, 'auth-secret');
      const findings = async (authSecrets: readonly string[] = []) => {
        const config = { ...instance().config, authSecrets, dataFolder: folder.path };
        const found = await secretsCheck.run({ config, database: instance().database });
        return found.map(({ location, message, isNote = false }) => [location, message, isNote]);
      };
      const missing =
        'the instance’s secret is missing. The next start will create a new one, which ends all sessions and makes stored secrets unreadable';
      assert.deepEqual(await findings(), [[file, missing, false]]);
      instanceSecrets({ authSecrets: [], dataFolder: folder.path });
      const local = `it is not set, so this machine’s secret (${file}) is used`;
      assert.deepEqual(await findings(), driver === 'embedded' ? [] : [['AUTH_SECRETS', local, true]]);
      writeFileSync(file, ` ${'x'.repeat(31)}\n`);
      assert.deepEqual(await findings(), [[file, 'it does not contain a secret', false]]);
      assert.deepEqual(await findings([old]), []);
      rmSync(file);
      mkdirSync(file);
      assert.match(String(await findings()), /^\S+\/auth-secret,it cannot be read: .+,false$/);
      folder.remove();
    });

    if (driver === 'postgresql')
      test('a secret that changes while it is encrypted again keeps its new value', async () => {
        const { id } = await integrate(instance(), acme, 'telegram');
        await connected(String(instance().config.environment.DATABASE_URL), async (client) => {
          await client.query('begin');
          await client.query('update crm_integrations set secret = $1 where id = $2', [
            await sealedWith(old).seal('the new secret'),
            id,
          ]);
          const renewal = renewSecrets(tables(), sealedWith(young, old), 'crm_integrations', sealedColumns);
          await untilWaiting(client, 'wait for the change');
          await client.query('commit');
          await renewal;
        });
        assert.equal((await open(id, young, old))?.secret, 'the new secret');
      });
  },
  { environment: { AUTH_SECRETS: old } },
);
