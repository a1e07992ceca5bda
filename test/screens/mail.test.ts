// Email: invitations and reset links are sent only to the email address, and failures never break a page.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { commandLine } from '../../engine/effects/actor.ts';
import { tablesOf, transaction } from '../../engine/tables/handle.ts';
import { disableUser, findUserBy } from '../../plugins/access/identity/operator-users.ts';
import { type MailSettings, mailer, mailTemplate, transportOf } from '../../plugins/operations/mail/mail.ts';
import {
  administratorOf,
  optionOf,
  problemOf,
  readable,
  shownIn,
  signIn,
  type Visitor,
  visitor,
} from '../support/forms.ts';
import { type Organization, onBothDrivers, startInstance, temporaryFolder } from '../support/instance.ts';
import { logged } from '../support/logged.ts';
import { type Arrived, linksIn, mailPassword, startMailServer } from '../support/mail.ts';
import { dump, fresh, logIn, makePerson, secondNode, soonerThan, told } from '../support/people.ts';
import { until } from '../support/process.ts';

const chosen = 'a password of their own';
const server = await startMailServer();
const environment = {
  MAIL_FROM: 'CRM <crm@people.example>',
  SMTP_URL: server.url,
  PUBLIC_URL: 'https://crm.example',
};

onBothDrivers(
  'mail',
  (instance) => {
    let acme: Organization;
    let beta: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      beta = await instance().organization('beta');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const mailsTo = (email: string) => server.arrived.filter(({ to }) => to === email);
    const mailTo = async (email: string, count = 1): Promise<Arrived> => {
      await until(() => mailsTo(email).length >= count, 'mail');
      return mailsTo(email)[count - 1] ?? assert.fail();
    };
    const invite = async (email: string, by = admin, org = 'acme') => {
      const page = `/setup/o/${org}/members`;
      const profile = await optionOf(by, `${page}/invite`, 'read-only');
      return by.submit(page, `${page}/invite`, { email, profile });
    };
    const accept = ({ path, code }: { path: string; code: string }, password = chosen) =>
      visitor(instance()).submit(path, path, { code, password });
    let callers = 0;
    /** Requests a reset from a new IP address, because requests are limited per IP address. */
    const forgot = async (email: string, headers: Readonly<Record<string, string>> = {}) => {
      const browser = visitor(instance());
      const _csrf = await browser.token('/setup/forgot');
      return browser.post(
        '/setup/forgot',
        { email, _csrf },
        { 'x-forwarded-for': `198.51.100.${++callers}`, ...headers },
      );
    };
    const reset = ({ path, code }: { path: string; code: string }, password = chosen) =>
      visitor(instance()).submit(path, path, { code, new: password, again: password });
    const login = (email: string, password: string) =>
      instance().call('POST /auth/login', { body: { email, password } });
    const user = (email: string) => transaction(instance().database, (tables) => findUserBy(tables, email));
    const first = (mail: Arrived) => linksIn(mail)[0] ?? assert.fail(mail.text);

    test('an invitation is mailed, its code is hidden from the inviter, and accepting it verifies the user', async () => {
      const email = `${fresh('guest')}@people.example`;
      const answer = await invite(email);
      assert.equal(answer.status, 303);
      const list = await admin.get(answer.headers.get('location') ?? '');
      assert.match(readable(list.text), new RegExp(`Invitation sent to <strong>${email}</strong>`));
      const mail = await mailTo(email);
      const { path, code } = first(mail);
      assert.match(mail.text, /^https:\/\/crm\.example\/setup\/invite\//m, 'whatever the Host header is');
      assert.deepEqual([mail.from, mail.subject], ['crm@people.example', 'Invitation to acme']);
      assert.match(mail.text, /The code can be used once, within 7 days\./);
      assert.ok(!answer.text.includes(code) && !answer.text.includes(path));
      const members = '/setup/o/acme/members';
      assert.doesNotMatch((await admin.get(members)).text, /Reset password/);
      const { id } = administratorOf(acme);
      const reset = await admin.get(`${members}/reset?id=${id}`);
      assert.match(problemOf(reset), /is not available/, 'users request links themselves');
      const submitted = await admin.submit(members, `${members}/reset`, { id });
      assert.match(problemOf(submitted), /reset links are sent by email/i);
      assert.equal((await accept({ path, code })).status, 303);
      assert.notEqual((await user(email)).verified_at, null);
      assert.equal((await accept({ path, code })).status, 400, 'an invitation works once');
    });

    test('a mailed invitation does not affect an existing user with the same email address', async () => {
      const squatter = await makePerson(instance(), [{ organization: beta }]);
      await invite(squatter.email);
      assert.equal((await accept(first(await mailTo(squatter.email)))).status, 303);
      const organizations = async (password: string) =>
        ((await login(squatter.email, password)).json.organizations as { slug: string }[]).map(
          ({ slug }) => slug,
        );
      assert.deepEqual(await organizations(squatter.password), ['beta']);
      assert.deepEqual(await organizations(chosen), ['acme']);
    });

    test('a second mailed invitation by the same organization verifies its unverified user', async () => {
      const { id, email } = await makePerson(instance(), [{ organization: acme }]);
      const members = '/setup/o/acme/members';
      await admin.submit(members, `${members}/remove`, { id });
      await invite(email);
      assert.equal((await user(email)).verified_at, null, 'the invitation is not accepted yet');
      assert.equal((await accept(first(await mailTo(email)))).status, 303);
      const { id: same, verified_at } = await user(email);
      assert.deepEqual([same, verified_at === null], [id, false]);
    });

    test('emails are in the language of the request, or in the language that the recipient has chosen', async () => {
      const email = `${fresh('guest')}@people.example`;
      const members = '/setup/o/acme/members';
      const profile = await optionOf(admin, `${members}/invite`, 'read-only');
      const _csrf = await admin.token(`${members}/invite`);
      const german = { 'accept-language': 'de' };
      await admin.post(`${members}/invite`, { _csrf, email, profile }, german);
      const invitation = await mailTo(email);
      assert.equal(invitation.subject, 'Einladung zu acme');
      assert.match(invitation.text, /^Sie wurden eingeladen, acme beizutreten\.$/m);
      assert.equal((await accept(first(invitation))).status, 303);
      assert.equal((await forgot(email, german)).status, 303);
      assert.match((await mailTo(email, 2)).text, /^Falls die Seite nach einem Code fragt, /m);
      const guest = await signIn(instance(), { email, password: chosen });
      await guest.submit('/setup/me', '/setup/me/language', { language: 'en' });
      assert.equal((await forgot(email, german)).status, 303);
      const mail = await mailTo(email, 3);
      assert.equal(mail.subject, 'Reset your password');
      assert.match(mail.text, /^Open this page:$/m);
      await guest.submit('/setup/me', '/setup/me/language', { language: 'de' });
      await admin.post(`${members}/remove`, {
        _csrf: await admin.token(members),
        id: (await user(email)).id,
      });
      await invite(email);
      assert.equal((await mailTo(email, 4)).subject, 'Einladung zu acme');
    });

    for (const mode of ['refuse', 'drop'] as const) {
      test(`if the server ${mode}s the email, the page shows link and code, and accepting does not verify the user`, async () => {
        const email = `${fresh('guest')}@people.example`;
        server.mode = mode;
        const answer = await invite(email).finally(() => {
          server.mode = 'accept';
        });
        assert.equal(answer.status, 200);
        assert.equal(problemOf(answer), 'The email could not be sent. Send the link and the code yourself.');
        assert.ok(!answer.text.includes(mailPassword));
        const { pathname: path } = new URL(shownIn(answer, 'link'));
        for (const mail of mailsTo(email))
          assert.equal((await accept(first(mail))).status, 400, 'the mailed code is invalid');
        assert.equal((await accept({ path, code: shownIn(answer, 'invitation-code') })).status, 303);
        assert.equal((await user(email)).verified_at, null);
      });
    }

    test('a forgotten password: every email address gets the same page, and only a known one gets an email', async () => {
      const person = await makePerson(instance(), [{ organization: acme }], { verified: true });
      const session = await logIn(instance(), person);
      const answers = [];
      for (const email of [person.email, `${fresh('nobody')}@people.example`, 'no address', '']) {
        const answer = await forgot(email);
        answers.push({ status: answer.status, location: answer.headers.get('location'), text: answer.text });
      }
      for (const answer of answers) assert.deepEqual(answer, answers[0]);
      assert.equal(answers[0]?.location, '/setup/login?done=reset-mailed');
      const mail = await mailTo(person.email);
      assert.equal(mail.subject, 'Reset your password');
      const link = first(mail);
      assert.match(mail.text, /^https:\/\/crm\.example\/setup\/reset\//m, 'whatever the Host header is');
      assert.ok(!(await dump(instance())).includes(link.code), 'the code is stored as a hash');
      assert.equal(
        problemOf(await reset({ ...link, code: 'AAAA-BBBB-CCCC-DDDD' })).slice(0, 27),
        'this link cannot be used: t',
      );
      assert.equal(problemOf(await reset(link, 'short')), 'the password must have 8 to 256 characters');
      assert.equal((await reset(link)).headers.get('location'), '/setup/login?done=password-reset');
      assert.equal((await reset(link, 'another password yet')).status, 400, 'a link works once');
      assert.equal((await login(person.email, person.password)).status, 401);
      assert.equal((await login(person.email, chosen)).status, 200);
      for (const headers of [session.byCookie, session.byToken]) {
        await soonerThan(
          1000,
          async () => (await instance().call('GET /auth/me', { headers })).status === 401,
        );
      }
    });

    test('links expire after an hour or when another one is used; at most three are mailed per hour', async () => {
      const person = await makePerson(instance(), [{ organization: acme }], { verified: true });
      for (let count = 1; count <= 3; count++) {
        await forgot(person.email);
        await mailTo(person.email, count);
      }
      await forgot(person.email);
      const other = await makePerson(instance(), [{ organization: acme }]);
      await forgot(other.email);
      await mailTo(other.email);
      const mails = mailsTo(person.email);
      assert.equal(mails.length, 3);
      const [late = '', ...links] = mails.map(first).map(({ path }) => path.split('/').at(-1));
      const tables = tablesOf(instance().database);
      const { created_at, expires_at } = await tables
        .selectFrom('crm_resets')
        .select(['created_at', 'expires_at'])
        .where('public_id', '=', late)
        .executeTakeFirstOrThrow();
      assert.match(mails[0]?.text ?? '', /Each code can be used once, within an hour\./);
      assert.equal(Math.round((expires_at.getTime() - created_at.getTime()) / 3_600_000), 1, 'in hours');
      await tables
        .updateTable('crm_resets')
        .set({ expires_at: new Date(Date.now() - 1000) })
        .where('public_id', '=', late)
        .execute();
      assert.equal(links.length, 2);
      const statuses = [];
      for (const mail of mails) statuses.push((await reset(first(mail))).status);
      assert.deepEqual(statuses, [400, 303, 400]);
    });

    test('unverified users with one email address get a link each, and using a link verifies its user', async () => {
      const { email } = await makePerson(instance(), [{ organization: acme }]);
      await makePerson(instance(), [{ organization: beta }], { email });
      await forgot(email);
      const mail = await mailTo(email);
      assert.match(mail.text, /For acme, open[\s\S]*For beta, open/);
      const [, second = assert.fail()] = linksIn(mail);
      assert.equal((await reset(second)).status, 303);
      const { json } = await login(email, chosen);
      assert.deepEqual((json.organizations as { slug: string }[])[0]?.slug, 'beta');
      const id = String((json.user as { id: number }).id);
      assert.notEqual((await user(id)).verified_at, null);
    });

    test('disabled users get no email', async () => {
      const [off, on] = [
        await makePerson(instance(), [{ organization: acme }]),
        await makePerson(instance(), [{ organization: acme }]),
      ];
      await transaction(instance().database, async (tables) =>
        disableUser(tables, commandLine(instance().config), await findUserBy(tables, off.email)),
      );
      await forgot(off.email);
      await forgot(on.email);
      await mailTo(on.email);
      assert.deepEqual(mailsTo(off.email), []);
    });

    test('a link that cannot be stored is logged without the email address, and the visitor sees no difference', async () => {
      const { email } = await makePerson(instance(), [{ organization: acme }]);
      const tables = tablesOf(instance().database);
      const isFailure = ({ msg }: Record<string, unknown>) =>
        msg === 'failed to create a password reset link';
      const lines = await logged(async (soFar) => {
        await sql`alter table crm_resets rename to crm_moved`.execute(tables);
        try {
          const answer = await forgot(email);
          assert.equal(answer.headers.get('location'), '/setup/login?done=reset-mailed');
          await until(() => soFar().some(isFailure), 'log the failure');
        } finally {
          await sql`alter table crm_moved rename to crm_resets`.execute(tables);
        }
      });
      const failures = lines.filter(isFailure);
      assert.deepEqual(
        failures.map(({ level, code }) => [level, code]),
        [[40, '42P01']],
      );
      assert.ok(!JSON.stringify(failures).includes(email));
    });

    test('a node that stops sends the emails that were requested before', async () => {
      const { email } = await makePerson(instance(), [{ organization: acme }]);
      const node = await secondNode(instance());
      await visitor(node).submit('/setup/forgot', '/setup/forgot', { email });
      await node.close();
      assert.equal(mailsTo(email).length, 1);
    });

    test('reset requests require a token and the same origin', async () => {
      const browser = visitor(instance());
      const _csrf = await browser.token('/setup/forgot');
      const email = `${fresh('person')}@people.example`;
      for (const [fields, headers] of [
        [{ email }, {}],
        [{ email, _csrf }, { 'sec-fetch-site': 'cross-site' }],
      ] as const) {
        assert.equal((await browser.post('/setup/forgot', fields, headers)).status, 403);
      }
    });
  },
  { environment: { ...environment, TRUSTED_PROXIES: '1' } },
);

describe('email after configuration changes', () => {
  test('pages follow the current configuration', async () => {
    const folder = temporaryFolder();
    const file = join(folder.path, 'config.yaml');
    const { hostname, port } = new URL(server.url);
    const on = `mail: { from: crm@people.example, host: "${hostname}", port: ${port}, user: crm, password: "\${SMTP_PASSWORD}" }\npublic_url: https://crm.example\n`;
    writeFileSync(file, '{}\n');
    const instance = await startInstance('embedded', {
      environment: { CRM_CONFIG: file, SMTP_PASSWORD: mailPassword },
    });
    try {
      const stranger = visitor(instance);
      const offers = async () => (await stranger.get('/setup/login')).text.includes('Forgot your password?');
      assert.equal(await offers(), false);
      assert.match((await stranger.get('/setup/forgot')).text, /Ask an administrator/);
      writeFileSync(file, on);
      await until(offers, 'offer it');
      const acme = await instance.organization('acme');
      const { email } = administratorOf(acme);
      await stranger.submit('/setup/forgot', '/setup/forgot', { email });
      await until(() => server.arrived.some(({ to }) => to === email), 'mail');
      writeFileSync(file, `${on}# no server is there\n`.replace(String(port), '1'));
      await until(async () => {
        const answer = await stranger.submit('/setup/forgot', '/setup/forgot', { email });
        return answer.headers.get('location') === '/setup/login?done=reset-mailed';
      }, 'answer as before');
    } finally {
      await instance.close();
      folder.remove();
    }
  });

  test('without public_url no links are mailed, and administrators pass them on', async () => {
    const { PUBLIC_URL: _, ...rest } = environment;
    const instance = await startInstance('embedded', { environment: rest });
    try {
      const acme = await instance.organization('acme');
      const { email } = administratorOf(acme);
      const before = server.arrived.length;
      const stranger = visitor(instance);
      assert.ok(!(await stranger.get('/setup/login')).text.includes('Forgot your password?'));
      assert.match((await stranger.get('/setup/forgot')).text, /This instance cannot send links by email/);
      const _csrf = await stranger.token('/setup/login');
      await stranger.post('/setup/forgot', { email, _csrf });
      const admin = await signIn(instance, administratorOf(acme));
      const page = '/setup/o/acme/members';
      const invited = await admin.submit(page, `${page}/invite`, {
        email: `${fresh('guest')}@people.example`,
        profile: await optionOf(admin, `${page}/invite`, 'read-only'),
      });
      assert.ok(shownIn(invited, 'link').startsWith(`${instance.url}/setup/invite/`), 'the link is shown');
      assert.match((await admin.get(page)).text, /Reset password/);
      const { rows } = await sql<{ resets: string }>`
        select count(*)::text as resets from crm_resets`.execute(tablesOf(instance.database));
      assert.equal(rows[0]?.resets, '0', 'no reset was created');
      assert.equal(server.arrived.length, before);
    } finally {
      await instance.close();
    }
  });

  test('limits requests per IP address, regardless of the recipient', async () => {
    const instance = await startInstance('embedded', { environment });
    try {
      const statuses = [];
      for (let count = 0; count < 11; count++) {
        const email = `${fresh('nobody')}@people.example`;
        const answer = await visitor(instance).submit('/setup/forgot', '/setup/forgot', { email });
        statuses.push(answer.status);
        if (answer.status !== 429) continue;
        assert.match(told(answer).text, /Too many attempts/);
        assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      }
      assert.deepEqual(statuses, [...Array<number>(10).fill(303), 429]);
    } finally {
      await instance.close();
    }
  });
});

test('a rejected email is logged without addresses and secrets', async () => {
  const settings: MailSettings = {
    ...{ from: 'crm@people.example', url: server.url, host: '', port: 587, user: '', password: '' },
    allow_plaintext: false,
  };
  const lines: unknown[] = [];
  const log = { warn: (...line: readonly unknown[]) => void lines.push(line) };
  const { send, sendsLinks } = mailer(
    () => settings,
    () => '',
    log,
  );
  assert.equal(sendsLinks(), false);
  const message = { to: 'log@people.example', subject: 'One\r\nBcc: two@people.example', text: 'Three' };
  server.mode = 'refuse';
  const refused = await send(message).finally(() => {
    server.mode = 'accept';
  });
  assert.deepEqual(
    [refused, lines],
    [false, [[{ code: 'EENVELOPE', response_code: 451 }, 'email rejected by the server']]],
  );
  assert.equal(await send(message), true);
  const mail = server.arrived.find(({ to }) => to === message.to);
  assert.deepEqual([mail?.subject, mail?.text.trim()], ['One Bcc: two@people.example', 'Three']);
  assert.equal(lines.length, 1);
});

test('values in emails are single lines without HTML', () => {
  const folder = temporaryFolder();
  const path = join(folder.path, 'mail.hbs');
  writeFileSync(path, '{{t "hello" name=name}}\n\n{{#each links}}{{url}}\n{{/each}}{{name}}\n');
  const render = mailTemplate<'en'>(path, (_language, name, { name: to }) => `${name} ${to}`);
  const links = [{ url: 'https://a.example/?b=1&c\nd' }, { url: 'e\u2028f' }];
  assert.deepEqual(render('a@b.example', 'en', { name: 'A <b>\r\nB', links }), {
    to: 'a@b.example',
    subject: 'hello A <b> B',
    text: 'https://a.example/?b=1&c d\ne f\nA <b> B\n',
  });
  assert.throws(() => render('a@b.example', 'en', { links }), /"name" not defined/);
  folder.remove();
});

test('mail is sent to the configured server, over TLS unless it is on this machine', async () => {
  const none: MailSettings = {
    ...{ from: 'crm@people.example', url: '', host: '', port: 587, user: '', password: '' },
    allow_plaintext: false,
  };
  for (const [settings, expected] of [
    [{}, undefined],
    [{ url: ' ', host: ' ' }, undefined],
    [{ url: 'not a URL', host: 'ignored.example' }, undefined],
    [
      { url: 'smtp://crm%40people:p%3Aw%2F@mail.example', host: 'ignored.example', user: 'ignored' },
      ['mail.example', 587, false, true, { user: 'crm@people', pass: 'p:w/' }],
    ],
    [
      { url: 'smtp://crm:100%@mail.example' },
      ['mail.example', 587, false, true, { user: 'crm', pass: '100%' }],
    ],
    [
      { url: 'smtp://crm:100%40%@mail.example' },
      ['mail.example', 587, false, true, { user: 'crm', pass: '100@%' }],
    ],
    [{ url: 'smtps://mail.example' }, ['mail.example', 465, true, true, undefined]],
    [{ url: 'smtps://[2001:db8::1]:10465' }, ['2001:db8::1', 10465, true, true, undefined]],
    [{ url: 'smtp://127.0.0.1:2525' }, ['127.0.0.1', 2525, false, false, undefined]],
    [{ url: 'smtp://mail.example', allow_plaintext: true }, ['mail.example', 587, false, false, undefined]],
    [{ host: 'mail.example' }, ['mail.example', 587, false, true, undefined]],
    [{ host: 'mail.example', port: 465 }, ['mail.example', 465, true, true, undefined]],
    [
      { host: 'localhost', user: 'crm', password: 'secret' },
      ['localhost', 587, false, false, { user: 'crm', pass: 'secret' }],
    ],
  ] as const) {
    const transport = await transportOf({ ...none, ...settings });
    const { host, port, secure, requireTLS, auth } = (transport?.options ?? {}) as Record<string, unknown>;
    assert.deepEqual(transport && [host, port, secure, requireTLS, auth], expected, JSON.stringify(settings));
    transport?.close();
    const { isEnabled } = mailer(
      () => ({ ...none, ...settings }),
      () => '',
      { warn: () => {} },
    );
    assert.equal(isEnabled(), expected !== undefined);
  }
});
