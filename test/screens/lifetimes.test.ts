// Keys, invitations and reset links expire when the page on which they are created says.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import { administratorOf, optionOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { fresh, makePerson } from '../support/people.ts';

let instance: Instance;
let acme: Organization;
let admin: Visitor;
before(async () => {
  instance = await startInstance('postgresql');
  acme = await instance.organization('acme');
  admin = await signIn(instance, administratorOf(acme));
});
after(() => instance.close());

const base = '/setup/o/acme';
interface Lifetime {
  readonly created_at: Date;
  readonly expires_at: Date | null;
}

/** Returns the hours between creation and expiry, or null if there is no expiry. */
const hoursOf = ({ created_at, expires_at }: Lifetime): number | null =>
  expires_at === null ? null : Math.round((expires_at.getTime() - created_at.getTime()) / 3_600_000);

/** Returns the times of the newest row. */
const newest = (table: 'crm_api_keys' | 'crm_invites' | 'crm_resets'): Promise<Lifetime> =>
  tablesOf(instance.database)
    .selectFrom(table)
    .select(['created_at', 'expires_at'])
    .orderBy('id', 'desc')
    .executeTakeFirstOrThrow();

/** Returns the options of a select field: their labels and values. */
const optionsIn = ({ text }: Answer, name: string): (readonly [label: string, value: string])[] => {
  const select = new RegExp(`<select[^>]* name="${name}"[^>]*>(.*?)</select>`).exec(text)?.[1] ?? '';
  return [...select.matchAll(/<option value="([^"]*)"[^>]*>([^<]*)</g)].map(([, value = '', label = '']) => [
    readable(label),
    value,
  ]);
};

describe('a new key expires', () => {
  const lifetimes = { 'in 90 days': 90 * 24, 'in 30 days': 30 * 24, 'in a year': 365 * 24, never: null };
  const page = `${base}/keys/create`;

  test('the form offers only these lifetimes', async () => {
    const labels = optionsIn(await admin.get(page), 'expires').map(([label]) => label);
    assert.deepEqual(labels, Object.keys(lifetimes));
  });

  for (const [label, hours] of Object.entries(lifetimes))
    test(label, async () => {
      const [expires, profile] = [
        await optionOf(admin, page, label),
        await optionOf(admin, page, 'read-only'),
      ];
      const made = await admin.submit(page, page, { name: fresh('key'), profile, expires });
      assert.equal(made.status, 200);
      assert.equal(hoursOf(await newest('crm_api_keys')), hours);
    });
});

describe('a rotated key stays valid for', () => {
  const overlaps = { '1 hour': 1, '1 day': 24, '7 days': 7 * 24 };
  const form = `${base}/keys/rotate`;

  test('the form offers only these times', async () => {
    const { id } = await acme.makeKey();
    const labels = optionsIn(await admin.get(`${form}?id=${id}`), 'overlap').map(([label]) => label);
    assert.deepEqual(labels, Object.keys(overlaps));
  });

  for (const [label, hours] of Object.entries(overlaps))
    test(label, async () => {
      const { id } = await acme.makeKey();
      const page = `${form}?id=${id}`;
      const rotated = await admin.submit(page, form, { id, overlap: await optionOf(admin, page, label) });
      assert.equal(rotated.status, 200);
      const { expires_at } = await tablesOf(instance.database)
        .selectFrom('crm_api_keys')
        .select('expires_at')
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
      const next = await newest('crm_api_keys');
      assert.equal(
        hoursOf({ created_at: next.created_at, expires_at }),
        hours,
        'since the new key was created',
      );
      assert.equal(next.expires_at, null);
    });
});

test('an invitation is valid for 7 days', async () => {
  const page = `${base}/members/invite`;
  const email = `${fresh('guest')}@people.example`;
  const made = await admin.submit(page, page, { email, profile: await optionOf(admin, page, 'read-only') });
  assert.match(made.text, /The invitation can be used once, within 7 days\./);
  assert.equal(hoursOf(await newest('crm_invites')), 7 * 24);
});

test('a reset link from an administrator is valid for 24 hours', async () => {
  const { id } = await makePerson(instance, [{ organization: acme }]);
  const made = await admin.submit(`${base}/members/reset?id=${id}`, `${base}/members/reset`, { id });
  assert.match(made.text, /The link can be used once, within 24 hours\./);
  assert.equal(hoursOf(await newest('crm_resets')), 24);
});
