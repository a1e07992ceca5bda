// Secrets at rest: encrypted with the first of AUTH_SECRETS, decrypted with any, and re-encrypted when the
// first changes.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { storeTotp } from '../../plugins/access/second-factor/codes.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { renewSecrets, sealing } from '../../plugins/access/secrets/sealing.ts';
import { changeSecrets, openIntegration, sealedColumns } from '../../webhooks/inbox/integrations.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { dumped, integrate } from '../support/partners.ts';
import { command, makePerson, secondNode } from '../support/people.ts';

const [old, young] = [
  'an old secret of more than 32 characters',
  'a young secret of more than 32 characters',
] as const;

onBothDrivers(
  'secrets at rest',
  (instance) => {
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
      const node = await secondNode(instance(), { authSecrets: [young, old] });
      await node.close();
      const opened = await open(id, young);
      assert.deepEqual([opened?.secret, opened?.token], [secret, token]);
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
      const newSecrets = { secret: 'entered again', token: 'and this' };
      await changeSecrets(tables(), command(instance()), strange, acme.id, id, newSecrets);
      const again = await openIntegration(tables(), strange, { organization: acme.id, id });
      assert.equal(again?.secret, 'entered again');
    });
  },
  { environment: { AUTH_SECRETS: old } },
);
