// Names of organizations, profiles, keys, integrations and members must be one visible line wherever they are
// entered, and names stored earlier cannot add headers or lines to an email.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { displayName, NameError, singleLine, tablesOf } from '../../engine/tables/index.ts';
import { publicUrl } from '../support/channels.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, optionOf, problemOf, signIn, type Visitor } from '../support/forms.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { startMailServer } from '../support/mail.ts';
import { settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';

test('a name has 1 to 200 characters without surrounding spaces, all of which can be stored', () => {
  const name = (input: string, max?: number) => displayName(input, 'the name', max);
  assert.equal(name(` ${'x'.repeat(200)}\n`), 'x'.repeat(200));
  assert.equal(name('x'.repeat(5), 5), 'xxxxx');
  for (const [input, max] of [
    ['x'.repeat(201), 200],
    ['x'.repeat(6), 5],
    [' \n ', 200],
    ['\ud800', 200],
  ] as const)
    assert.throws(
      () => name(input, max),
      (error) =>
        error instanceof NameError &&
        error.message === `the name must have 1 to ${max} characters` &&
        error.reason.kind === 'length' &&
        error.reason.max === max,
    );
});

const server = await startMailServer();
const { environment: settings } = settingsFile({
  public_url: publicUrl,
  new_organizations: 'administrators',
});
const environment = { ...settings, MAIL_FROM: 'crm@people.example', SMTP_URL: server.url };

/** Characters that names cannot contain, as code points. */
const rejected: Readonly<Record<string, string>> = {
  'U+000A': '\n',
  'U+000D': '\r\n',
  'U+0009': '\t',
  'U+001B': '\u001b',
  'U+007F': '\u007f',
  'U+0085': '\u0085',
  'U+061C': '\u061c',
  'U+200E': '\u200e',
  'U+202E': '\u202e',
  'U+2066': '\u2066',
  'U+2028': '\u2028',
  'U+2029': '\u2029',
};
const accepted = ['Zoë & Söhne', '株式会社', 'شركة', 'می‌خواهم', '👩‍👩‍👧', "O'Brien <3"];

const message = (codePoint: string) =>
  `the name must not contain line breaks, control characters or characters that change the text direction (found ${codePoint})`;

onBothDrivers(
  'names',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      await runCommand(instance(), ['user', 'verify', acme.user]);
      admin = await signIn(instance(), administratorOf(acme));
    });
    const command = (...args: string[]) => runCommand(instance(), args);
    const submit = (page: string, form: string, fields: Record<string, string>) =>
      admin.submit(page, form, fields);
    const ofAcme = (page: string, form: string, fields: Record<string, string>) =>
      submit(`/setup/o/acme/${page}/${form}`, `/setup/o/acme/${page}/${form}`, fields);

    /** Every way to set a name. Each function resolves to the error message, or to an empty string. */
    const places: Readonly<Record<string, (name: string) => Promise<string>>> = Object.fromEntries(
      Object.entries<(name: string) => Promise<unknown>>({
        'org create': (name) => command('org', 'create', fresh('org'), '--name', name),
        'org rename': (name) => command('org', 'rename', 'acme', '--name', name),
        'profile create': (name) =>
          command('profile', 'create', name, '--org', 'acme', '--grant', 'leads:list'),
        'team create': (name) => command('team', 'create', name, '--org', 'acme'),
        'key create': (name) =>
          command('key', 'create', '--org', 'acme', '--profile', 'read-only', '--name', name),
        'a new organization in the browser': (name) =>
          submit('/setup/organizations/new', '/setup/organizations/new', { name, slug: fresh('org') }),
        'an organization renamed in the browser': (name) =>
          submit('/setup/organizations/acme/rename', '/setup/organizations/acme/rename', {
            name,
            slug: 'acme',
          }),
        'a key in the browser': async (name) =>
          ofAcme('keys', 'create', {
            name,
            profile: await optionOf(admin, '/setup/o/acme/keys/create', 'read-only'),
            expires: 'never',
          }),
        'a profile in the browser': (name) => ofAcme('profiles', 'create', { name }),
        'a team in the browser': (name) => ofAcme('teams', 'create', { name }),
        'an integration in the browser': (name) =>
          ofAcme('integrations', 'add', { name, provider: 'whatsapp', secret: 'secret' }),
      }).map(([place, give]) => [
        place,
        async (name: string) => {
          try {
            const answer = (await give(name)) as { status?: number; text: string };
            return answer.status === 400 ? problemOf(answer as Parameters<typeof problemOf>[0]) : '';
          } catch (error) {
            return (error as Error).message;
          }
        },
      ]),
    );

    for (const place of Object.keys(places)) {
      test(`${place}: rejects invisible characters and accepts every script`, async () => {
        const give = places[place] ?? assert.fail();
        for (const [codePoint, character] of Object.entries(rejected)) {
          assert.equal(await give(`Acme${character}Bcc: x`), message(codePoint), codePoint);
        }
        for (const name of accepted) assert.equal(await give(`${name} ${fresh('n')}`), '', name);
      });
    }

    test('members are identified by email addresses, which cannot contain these characters', async () => {
      const profile = await optionOf(admin, '/setup/o/acme/members/invite', 'read-only');
      for (const [codePoint, character] of Object.entries(rejected)) {
        const email = `ada${character}x@people.example`;
        const answer = await ofAcme('members', 'invite', { email, profile });
        assert.equal(problemOf(answer), 'this is not a valid email address', codePoint);
        await assert.rejects(
          command('user', 'create', email, '--org', 'acme', '--profile', 'read-only'),
          { message: 'this is not a valid email address' },
          codePoint,
        );
      }
    });

    describe('stored before they were rejected', () => {
      const stored = 'Acme\r\nBcc: everybody@people.example\n\nhttps://evil.example\u202e';
      test('an invitation keeps its subject, headers and lines', async () => {
        await tablesOf(instance().database)
          .updateTable('crm_organizations')
          .set({ name: stored })
          .where('id', '=', acme.id)
          .execute();
        const other = await signIn(instance(), administratorOf(acme));
        const email = `${fresh('guest')}@people.example`;
        const profile = await optionOf(other, '/setup/o/acme/members/invite', 'read-only');
        const page = '/setup/o/acme/members/invite';
        assert.equal((await other.submit(page, page, { email, profile })).status, 303);
        const arrived = () => server.arrived.find(({ to }) => to === email);
        await until(() => arrived() !== undefined, 'mail');
        const mail = arrived() ?? assert.fail();
        assert.equal(mail.to, email);
        const name = singleLine(stored);
        assert.equal(name, 'Acme Bcc: everybody@people.example https://evil.example');
        const lines = mail.text.split(/\r?\n/);
        assert.ok(lines.includes(`You have been invited to join ${name}.`), mail.text);
        assert.ok(!lines.some((line) => line.startsWith('https://evil')), mail.text);
        assert.ok(!mail.text.includes('\u202e'));
      });
    });
  },
  { environment },
);
