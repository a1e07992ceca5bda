// Keys, invitations and reset links expire when the page on which they are created says.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import {
  administratorOf,
  formsOf,
  optionOf,
  readable,
  shownIn,
  signIn,
  type Visitor,
} from '../support/forms.ts';
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
/** Values of a form. */
type Fields = Readonly<Record<string, string>>;

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

test('a new key has the access selected in the form, by default the complete access of its profile', async () => {
  const page = `${base}/keys/create`;
  const profile = await optionOf(admin, page, 'administrator');
  const { text } = await admin.get(page);
  const [, options = ''] = /<select[^>]* name="access"[^>]*>(.*?)<\/select>/.exec(text) ?? [];
  assert.deepEqual(
    [...options.matchAll(/<option value="([^"]*)"( selected)?/g)].map(([, value, selected]) => [
      value,
      selected !== undefined,
    ]),
    [
      ['read-only', false],
      ['propose', false],
      ['write', true],
    ],
  );
  for (const [access, status, shown] of [
    ['read-only', 403, 'read only'],
    ['propose', 403, 'proposes writes'],
    ['write', 201, undefined],
  ] as const) {
    const name = fresh('key');
    const made = await admin.submit(page, page, { name, profile, expires: 'never', access });
    const key = shownIn(made, 'plaintext');
    const command = new RegExp(`curl -H 'Authorization: Bearer ${key}' (\\S+)`).exec(readable(made.text));
    assert.equal(command?.[1]?.replace(/<.*/, ''), `${instance.url}/api/v1/${instance.resources[0]?.name}`);
    const list = async () => {
      const { text: html } = await admin.get(`${base}/keys?q=${name}`);
      const cell = (title: string) =>
        new RegExp(` data-label="${title}"[^>]*>(.*?)</td>`).exec(html)?.[1]?.replace(/<time .*/, 'a time');
      const profileCell = cell('Profile')?.replace(/(?:<[^>]*>|\s)+/g, ' ');
      return [profileCell?.trim(), cell('Last used')];
    };
    const expected = shown === undefined ? 'administrator' : `administrator ${shown}`;
    assert.deepEqual(await list(), [expected, 'never']);
    assert.equal((await instance.call('GET /api/v1/leads', { key })).status, 200);
    assert.equal((await instance.call('POST /api/v1/leads', { key, body: {} })).status, status, access);
    assert.deepEqual(await list(), [expected, 'a time'], 'the use is not stored yet');
  }
});

test('rejected forms keep their input', async () => {
  const profile = await optionOf(admin, `${base}/keys/create`, 'read-only');
  const { id: member } = await makePerson(instance, [{ organization: acme }]);
  const forms: Readonly<Record<string, [invalid: Fields, kept: Fields]>> = {
    'keys/create': [{ name: ' ' }, { profile, access: 'propose', on_behalf_of: member, expires: '30' }],
    'members/invite': [{ email: 'nobody' }, { email: 'nobody', name: 'Ada', profile }],
    'teams/add': [{ team: '' }, { member }],
  };
  for (const [form, [invalid, kept]] of Object.entries(forms)) {
    const url = `${base}/${form}`;
    const answer = await admin.submit(url, url, { ...kept, ...invalid });
    assert.equal(answer.status, 400, form);
    const { values = {} } = formsOf(answer).find(({ action }) => action === url) ?? {};
    for (const [name, value] of Object.entries(kept)) assert.equal(values[name], value, `${form}: ${name}`);
  }
});

test('keys are listed by their state', async () => {
  const states = await instance.organization('states');
  const [never, later, expired, revoked] = [
    await states.makeKey({ profile: 'read-only' }),
    await states.makeKey({ profile: 'read-only', expiresAt: new Date(Date.now() + 86_400_000) }),
    await states.makeKey({ profile: 'read-only', expiresAt: new Date(Date.now() - 1) }),
    await states.makeKey({ profile: 'read-only', expiresAt: new Date(Date.now() - 1) }),
  ];
  const tables = tablesOf(instance.database);
  await tables
    .updateTable('crm_api_keys')
    .set({ revoked_at: new Date() })
    .where('id', '=', revoked.id)
    .execute();
  const browser = await signIn(instance, administratorOf(states));
  const listed = async (view: string) => {
    const { text } = await browser.get(`/setup/o/states/keys?q=read-only${view}`);
    const rows = [...readable(text).matchAll(/<tr[^>]*><th scope="row"[\s\S]*?<\/tr>/g)];
    return rows.map(([row]) => [
      /…(.{4})</.exec(row)?.[1],
      /<span class="badge state (\w+)">([^<]*)</.exec(row)?.slice(1).join(' '),
      /\/keys\/rotate\?id=/.test(row),
    ]);
  };
  const ending = ({ key }: { key: string }) => key.slice(-4);
  const live = [
    [ending(later), 'good live, expires', true],
    [ending(never), 'good live', true],
  ];
  const ended = [
    [ending(revoked), 'quiet revoked', false],
    [ending(expired), 'quiet expired', false],
  ];
  assert.deepEqual(await listed(''), live);
  assert.deepEqual(await listed('&show=expired'), ended.slice(1));
  assert.deepEqual(await listed('&show=revoked'), ended.slice(0, 1));
  assert.deepEqual(await listed('&show=all'), [...ended, ...live]);
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
