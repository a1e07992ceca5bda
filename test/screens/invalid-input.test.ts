// Invalid input in the admin UI: each error has a clear message on its page and leaves the data unchanged.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { tablesOf } from '../../engine/tables/handle.ts';
import {
  administratorOf,
  optionOf,
  problemOf,
  readable,
  signIn,
  type Visitor,
  visitor,
} from '../support/forms.ts';
import { type Instance, type Organization, startInstance } from '../support/instance.ts';
import { dump, fresh, makePerson } from '../support/people.ts';
import { type Administrator, openScreens, type Screens } from '../support/screens.ts';

const long = 'x'.repeat(10_000);
const unusable =
  'this invitation cannot be used: the code is wrong, it has expired, or it has already been used';
const badName = 'the name must have 1 to 200 characters';
const lastOne = 'this is the last administrator. Make another member an administrator first.';
const gone = 'this item no longer exists';
const shortPassword = 'the password must have 8 to 256 characters';

/** A form submission, by default by acme's administrator. */
interface Attempt {
  readonly page: string;
  readonly form: string;
  readonly fields: Readonly<Record<string, string | readonly string[]>>;
  readonly by?: Visitor;
}

describe('invalid input in the admin UI', () => {
  let instance: Instance;
  let acme: Organization;
  let admin: Visitor;
  let screens: Screens;
  let own: Administrator;
  let readOnly: string;
  before(async () => {
    instance = await startInstance('embedded');
    screens = await openScreens(instance);
    ({ acme, admin } = screens);
    own = await screens.administrator();
    readOnly = await optionOf(admin, '/setup/o/acme/keys/create', 'read-only');
  });
  after(() => instance.close());

  const at = (page: string, form: string, fields: Attempt['fields'], org = 'acme'): Attempt => ({
    page: `/setup/o/${org}/${page}`,
    form: `/setup/o/${org}/${page}/${form}`,
    fields,
  });
  const revoked = async () => {
    const { id } = await acme.makeKey();
    await admin.submit('/setup/o/acme/keys', '/setup/o/acme/keys/revoke', { id });
    return id;
  };
  const accept = async (
    change: (invite: { path: string; code: string; email: string }) => Promise<unknown> | unknown = () => {},
    fields: Attempt['fields'] = {},
  ): Promise<Attempt> => {
    const invite = await screens.invitation();
    await change(invite);
    const { path, code } = invite;
    return {
      page: path,
      form: path,
      fields: { code, password: 'one of their own', ...fields },
      by: visitor(instance),
    };
  };
  const use = async ({ path, code }: { path: string; code: string }) => {
    const answer = await visitor(instance).submit(path, path, { code, password: 'one of their own' });
    assert.equal(answer.status, 303);
  };
  const expire = ({ email }: { email: string }) =>
    tablesOf(instance.database)
      .updateTable('crm_invites')
      .set({ expires_at: new Date(Date.now() - 1000) })
      .where('email', '=', email)
      .execute();
  const disable = ({ id }: { id: string }) =>
    tablesOf(instance.database)
      .updateTable('crm_users')
      .set({ disabled_at: new Date() })
      .where('id', '=', id)
      .execute();
  const idOfInvite = async (change: (invite: { path: string; code: string }) => unknown) => {
    const invite = await screens.invitation();
    await change(invite);
    const rows = tablesOf(instance.database).selectFrom('crm_invites').select('id');
    return String((await rows.where('email', '=', invite.email).executeTakeFirstOrThrow()).id);
  };
  const alone = async (
    form: string,
    fields: (person: string, readOnly: string) => Record<string, string>,
  ) => {
    const org = await instance.organization(fresh('alone'));
    const by = await signIn(instance, administratorOf(org));
    const other = await optionOf(by, `/setup/o/${org.slug}/members/invite`, 'read-only');
    return { ...at('members', form, fields(org.user, other), org.slug), by };
  };
  const usedProfile = async (use: (name: string, id: string) => Promise<unknown>) => {
    const id = await screens.newProfile();
    const name = (
      await tablesOf(instance.database)
        .selectFrom('crm_profiles')
        .select('name')
        .where('id', '=', id)
        .executeTakeFirstOrThrow()
    ).name;
    await use(name, id);
    return at('profiles', 'delete', { id });
  };
  const integration = (fields: Record<string, string>) =>
    at('integrations', 'add', { provider: 'whatsapp', name: 'Number', secret: 'secret', ...fields });
  const bot = async () => (await screens.newDelivery()).integration;
  const password = (fields: Record<string, string>) => ({
    page: '/setup/me',
    form: '/setup/me/password',
    fields: { current: own.password, new: 'another password', again: 'another password', ...fields },
    by: own.browser,
  });
  const login = (fields: Attempt['fields']) => ({
    page: '/setup/login',
    form: '/setup/login',
    fields: { email: own.email, password: 'wrong', ...fields },
    by: visitor(instance),
  });
  const key = (fields: Attempt['fields']) =>
    at('keys', 'create', { name: 'k', profile: readOnly, expires: 'never', ...fields });
  const inUse = (users: string) => `this profile is in use by ${users}. Change their profile first.`;
  const wrongLogin = 'Wrong email or password';

  const cases: Readonly<
    Record<string, [make: () => Attempt | Promise<Attempt>, problem: string, status?: number]>
  > = {
    'login: a wrong password': [() => login({}), wrongLogin, 401],
    'login: an unknown email address': [() => login({ email: 'nobody@people.example' }), wrongLogin, 401],
    'login: nothing': [() => login({ email: '', password: '' }), wrongLogin, 401],
    'login: 10 kB': [() => login({ email: long, password: long }), wrongLogin, 401],
    'login: NUL': [() => login({ email: 'a\0b@c.example', password: 'a\0b' }), wrongLogin, 401],

    'invitation: a wrong code': [() => accept(undefined, { code: 'AAAA-BBBB-CCCC-DDDD' }), unusable],
    'invitation: no code': [() => accept(undefined, { code: '' }), unusable],
    'invitation: a code of 10 kB': [() => accept(undefined, { code: long }), unusable],
    'invitation: expired': [() => accept(expire), unusable],
    'invitation: used': [() => accept(use), unusable],
    'invitation: canceled': [
      () =>
        accept(({ email }) =>
          tablesOf(instance.database).deleteFrom('crm_invites').where('email', '=', email).execute(),
        ),
      unusable,
    ],
    'invitation: an unknown name': [
      async () => ({ ...(await accept()), page: '/setup/invite/none', form: '/setup/invite/none' }),
      unusable,
    ],
    'invitation: a name with a NUL character': [
      async () => ({ ...(await accept()), page: '/setup/invite/%00', form: '/setup/invite/%00' }),
      unusable,
    ],
    'invitation: a short password': [() => accept(undefined, { password: '1234567' }), shortPassword],
    'invitation: a password of 10 kB': [() => accept(undefined, { password: long }), shortPassword],
    'invitation: a known user with a wrong password': [
      () => accept(({ email }) => makePerson(instance, [], { email })),
      "{email} is already registered. Enter the user's password.",
    ],
    'invitation: already a member': [
      () =>
        accept(({ email }) =>
          makePerson(instance, [{ organization: acme }], { email, password: 'one of their own' }),
        ),
      '{email} is already a member of this organization',
    ],

    'invitation: a disabled user': [
      () =>
        accept(async ({ email }) =>
          disable(
            await makePerson(instance, [{ organization: acme }], { email, password: 'one of their own' }),
          ),
        ),
      'this user is disabled. Ask the operator of this instance.',
    ],

    'reset: a disabled user': [
      async () => {
        const person = await makePerson(instance, [{ organization: acme }]);
        await disable(person);
        return at('members', 'reset', { id: person.id });
      },
      'this user is disabled',
    ],
    'reset: the repetition differs': [
      async () => {
        const { page, action, fields } = await screens.ready('/setup/reset/', own);
        const by = visitor(instance);
        return { page, form: action, fields: { ...fields, again: 'another passwort' }, by };
      },
      'the new passwords do not match',
    ],
    ...Object.fromEntries(
      ['none', '%00'].map((name): [string, [() => Attempt, string]] => [
        `reset: the link ${name}`,
        [
          () => ({
            page: `/setup/reset/${name}`,
            form: `/setup/reset/${name}`,
            fields: { code: 'AAAA-BBBB-CCCC-DDDD', new: 'another password', again: 'another password' },
            by: visitor(instance),
          }),
          'this link cannot be used: the code is wrong, it has expired, or it has already been used',
        ],
      ]),
    ),

    'key: no name': [() => key({ name: '' }), badName],
    'key: a blank name': [() => key({ name: ' \t ' }), badName],
    'key: a name of 10 kB': [() => key({ name: long }), badName],
    'key: a name with a NUL character': [() => key({ name: 'a\0b' }), badName],
    'key: no profile': [() => key({ profile: '' }), 'choose a profile'],
    'key: an unknown profile': [() => key({ profile: '999999999' }), 'this profile does not exist'],
    'key: a profile ID out of range': [() => key({ profile: '9'.repeat(30) }), gone],
    'key: an unknown access': [() => key({ access: 'admin' }), 'choose what the key can do'],
    'key: no expiry': [() => key({ expires: '' }), 'choose when the key expires'],
    'key: an invalid expiry': [() => key({ expires: '31' }), 'choose when the key expires'],
    'key: an expiry named like an inherited property': [
      () => key({ expires: 'toString' }),
      'choose when the key expires',
    ],
    'key: revoked twice': [
      async () => at('keys', 'revoke', { id: await revoked() }),
      'key {id} is already revoked',
    ],
    'key: an unknown one revoked': [
      () => at('keys', 'revoke', { id: '999999999' }),
      'key {id} does not exist in this organization',
    ],
    'key: an invalid ID revoked': [() => at('keys', 'revoke', { id: "1' or '1'='1" }), gone],
    'key: a revoked one rotated': [
      async () => at('keys', 'rotate', { id: await revoked(), overlap: '1h' }),
      'this key does not exist or is not live',
    ],
    'key: an expired one rotated': [
      async () =>
        at('keys', 'rotate', { id: (await acme.makeKey({ expiresAt: new Date(1) })).id, overlap: '1h' }),
      'this key does not exist or is not live',
    ],
    'key: rotated without an overlap': [
      async () => at('keys', 'rotate', { id: (await acme.makeKey()).id, overlap: '' }),
      'choose how long the old key stays valid',
    ],
    'key: rotated with an overlap named like an inherited property': [
      async () => at('keys', 'rotate', { id: (await acme.makeKey()).id, overlap: 'constructor' }),
      'choose how long the old key stays valid',
    ],

    ...Object.fromEntries(
      ['', 'nobody', 'a b@c.example', 'a@b@c', '@', `${long}@c.example`, 'a\0@c.example'].map(
        (email): [string, [() => Attempt, string]] => [
          `member: invited as ${JSON.stringify(email.slice(0, 20))}`,
          [() => at('members', 'invite', { email, profile: readOnly }), 'this is not a valid email address'],
        ],
      ),
    ),
    'member: invited again': [
      () => at('members', 'invite', { email: ` ${own.email.toUpperCase()}`, profile: readOnly }),
      '{own} is already a member of this organization',
    ],
    'member: the last administrator removed': [() => alone('remove', (id) => ({ id })), lastOne],
    'member: the last administrator demoted': [
      () => alone('change', (id, profile) => ({ id, profile })),
      lastOne,
    ],
    'member: an unknown one removed': [
      () => at('members', 'remove', { id: '999999999' }),
      'this member does not exist',
    ],
    'member: an unknown one changed': [
      () => at('members', 'change', { id: '999999999', profile: readOnly }),
      'this member does not exist',
    ],
    'member: changed to an unknown profile': [
      () => at('members', 'change', { id: own.id, profile: '999999999' }),
      'this profile does not exist',
    ],
    'member: a used invitation canceled': [
      async () => at('members', 'cancel', { id: await idOfInvite((invite) => use({ ...invite })) }),
      'this invitation is no longer open',
    ],

    'team: no name': [() => at('teams', 'create', { name: '' }), badName],
    'team: a name of 10 kB': [() => at('teams', 'create', { name: long }), badName],
    'team: an unknown one renamed': [
      () => at('teams', 'rename', { id: '999999999', name: 'x' }),
      'this team does not exist',
    ],
    'team: no member selected': [() => at('teams', 'add', { team: '1', member: '' }), 'choose a member'],
    'team: a member of an unknown one': [
      () => at('teams', 'add', { team: '999999999', member: own.id }),
      'this team does not exist',
    ],
    'team: an unknown membership removed': [
      () => at('teams', 'remove', { id: '999999999' }),
      'this person is not a member of the team',
    ],

    'profile: no name': [() => at('profiles', 'create', { name: '' }), badName],
    'profile: a name of 10 kB': [() => at('profiles', 'create', { name: long }), badName],
    'profile: the same name twice': [
      () => at('profiles', 'create', { name: ' read-only ' }),
      'a profile named "read-only" already exists',
    ],
    'profile: a built-in one changed': [
      () => at('profiles', 'change', { id: readOnly, grant: '*:*' }),
      'the profile "read-only" cannot be changed',
    ],
    'profile: a built-in one deleted': [
      () => at('profiles', 'delete', { id: readOnly }),
      'the profile "read-only" cannot be changed',
    ],
    'profile: an unknown one deleted': [
      () => at('profiles', 'delete', { id: '999999999' }),
      'this profile does not exist',
    ],
    'profile: an unknown action': [
      async () =>
        at('profiles', 'change', { id: await screens.newProfile(), grant: ['leads:list', 'leads:fly'] }),
      'action "fly" does not exist. Available: list, read, create, update, delete, *.',
    ],
    'profile: an unknown object': [
      async () => at('profiles', 'change', { id: await screens.newProfile(), grant: 'crm_users:read' }),
      'object "crm_users" does not exist. Available: {objects}, events, members, *.',
    ],
    'profile: too many grants': [
      async () =>
        at('profiles', 'change', {
          id: await screens.newProfile(),
          grant: Array<string>(1001).fill('leads:list'),
        }),
      'too many grants',
    ],
    'profile: in use by a member': [
      () =>
        usedProfile(async (_, profile) => {
          const { id } = await makePerson(instance, [{ organization: acme }]);
          await admin.submit('/setup/o/acme/members', '/setup/o/acme/members/change', { id, profile });
        }),
      inUse('members'),
    ],
    'profile: in use by a key': [
      () => usedProfile((profile) => acme.makeKey({ profile })),
      inUse('API keys'),
    ],
    'profile: in use by an event subscription': [
      () =>
        usedProfile((_, profile) => {
          const fields = { url: 'https://events.example/hook', resource: 'leads', action: 'create', profile };
          return admin.submit('/setup/o/acme/events', '/setup/o/acme/events/add', fields);
        }),
      inUse('event subscriptions'),
    ],
    'profile: in use by an invitation': [
      () =>
        usedProfile((_, profile) => {
          const fields = { email: `${fresh('guest')}@people.example`, profile };
          return admin.submit('/setup/o/acme/members', '/setup/o/acme/members/invite', fields);
        }),
      inUse('invitations'),
    ],

    'integration: no name': [() => integration({ name: '' }), badName],
    'integration: a blank name': [() => integration({ name: ' \t ' }), badName],
    'integration: a name of 10 kB': [() => integration({ name: long }), badName],
    'integration: a name with a NUL character': [() => integration({ name: 'a\0b' }), badName],
    ...Object.fromEntries(
      ['', 'carrier', 'toString', '__proto__', 'WhatsApp', long].map(
        (provider): [string, [() => Attempt, string]] => [
          `integration: unknown provider "${provider.slice(0, 20)}"`,
          [() => integration({ provider }), 'this provider does not exist'],
        ],
      ),
    ),
    'integration: no secret': [() => integration({ secret: '' }), 'App secret is required'],
    'integration: a blank secret': [() => integration({ secret: ' \t ' }), 'App secret is required'],
    'integration: Lead Ads without a token': [
      () => integration({ provider: 'meta-lead-ads', token: ' ' }),
      'Page access token is required',
    ],
    'integration: an invalid state': [
      async () => at('integrations', 'switch', { id: await bot(), to: 'toString' }),
      'to must be on or off',
    ],
    'integration: blank new secrets': [
      async () => at('integrations', 'secrets', { id: await bot(), secret: ' ', token: '' }),
      'Enter a new secret.',
    ],
    ...Object.fromEntries(
      ['switch', 'secrets', 'remove'].flatMap((form): [string, [() => Attempt, string]][] => [
        [
          `integration: ${form} with an unknown ID`,
          [
            () => at('integrations', form, { id: '999999999', to: 'on', secret: 's' }),
            'this integration does not exist',
          ],
        ],
        [
          `integration: ${form} with an invalid ID`,
          [() => at('integrations', form, { id: "1' or '1'='1", to: 'on', secret: 's' }), gone],
        ],
      ]),
    ),
    'integration: removed twice': [
      async () => {
        const id = await bot();
        await admin.submit('/setup/o/acme/integrations', '/setup/o/acme/integrations/remove', { id });
        return at('integrations', 'remove', { id });
      },
      'this integration does not exist',
    ],
    'delivery: an unknown one replayed': [
      () => at('deliveries', 'replay', { id: '999999999' }),
      'inbox item 999999999 does not exist in this organization',
    ],
    'delivery: an invalid ID replayed': [() => at('deliveries', 'replay', { id: '-1' }), gone],
    'delivery: an ID out of range replayed': [() => at('deliveries', 'replay', { id: '9'.repeat(30) }), gone],
    'delivery: all of an invalid integration replayed': [
      () => at('deliveries', 'replay-all', { owner: "1' or '1'='1" }),
      'this item no longer exists',
    ],

    'password: the repetition differs': [
      () => password({ again: 'another passwort' }),
      'the new passwords do not match',
    ],
    'password: wrong current password': [
      () => password({ current: 'wrong' }),
      'the current password is wrong',
    ],
    'password: too short': [() => password({ new: '1234567', again: '1234567' }), shortPassword],
    'password: 10 kB': [() => password({ new: long, again: long }), shortPassword],
  };
  for (const [name, [make, problem, status = 400]] of Object.entries(cases)) {
    test(name, async () => {
      const { page, form, fields, by = admin } = await make();
      const before = await dump(instance);
      const answer = await by.submit(page, form, fields);
      assert.equal(answer.status, status, readable(answer.text));
      const message = problemOf(answer)
        .replace(/guest-\d+@people\.example/, '{email}')
        .replace(own.email, '{own}')
        .replace(/^key \d+ /, 'key {id} ')
        .replace(instance.resources.map((resource) => resource.name).join(', '), '{objects}');
      assert.equal(message, problem);
      assert.ok(answer.text.length < 100_000, 'the page does not repeat the input');
      assert.ok((await dump(instance)) === before, 'no data has changed');
      assert.match(
        answer.text,
        /<form[^>]* action="\/setup\/(?!logout")|<p class="above">/,
        'the page has a form or a link back',
      );
    });
  }
});
