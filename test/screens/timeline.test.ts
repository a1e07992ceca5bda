// The timeline of a record: messages from and to its person, and events about it, in the right order and without gaps between pages.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { whatsappBody } from '../support/channels.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { deliver, integrate, settingsFile } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { type Behaviour, eventsTo, settledFeed, startReceiver } from '../support/receiver.ts';
import { sourcesWith } from '../support/sources.ts';

const german = { 'accept-language': 'de' };
const data = '/setup/o/acme/data';
const sources = await sourcesWith({
  file: 'callers.yaml',
  text: `singular: caller
common: all
fields:
  name: { type: string }
  phone: { type: string, format: phone }
  mobile: { type: string, format: phone, group: private }
  email: { type: string, lookup: caseless }
  note: { type: string }
  pin: { type: string, sensitive: true }
sort: { by: id }
filters: [name]
scopes:
  ours: name != ""
`,
});

const receiver = await startReceiver();
after(() => receiver.close());
const host = `127.0.0.1:${receiver.port}`;

/** An entry as a reader sees it: its text with the state, and the text of a message. */
interface Entry {
  readonly text: string;
  readonly message: string | undefined;
}

/** Returns the entries in the timeline on a page, newest first. */
const entriesIn = ({ text }: Answer): Entry[] =>
  text
    .slice(text.indexOf('id="changes-title"'))
    .split('<li><span class="mark">')
    .slice(1)
    .map((entry) => ({
      text: readable(/<p>([\s\S]*?)<span class="below">/.exec(entry)?.[1] ?? '')
        .replace(/<[^>]*>/g, '')
        .replace(/\s+/g, ' ')
        .trim(),
      message: /<p class="text" dir="auto">([^<]*)<\/p>/.exec(entry)?.[1],
    }));
const messagesIn = (page: Answer): string[] => entriesIn(page).flatMap(({ message }) => message ?? []);
const olderIn = ({ text }: Answer): string =>
  readable(/<a href="([^"]*)"[^>]*>Older changes<\/a>/.exec(text)?.[1] ?? '');

onBothDrivers(
  'messages in timelines',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
    });
    const create = async (body: object, { key }: Organization = acme): Promise<string> => {
      const answer = await instance().call('POST /api/v1/callers', { key, body });
      assert.equal(answer.status, 201, answer.text);
      return String(answer.json.id);
    };
    const page = (id: string, headers = {}) => admin.get(`${data}/callers/${id}`, headers);
    /** Stores received messages, each with its sender as the text unless it has one of its own. */
    const receive = async (
      integration: string,
      senders: readonly string[],
      texts = senders,
      at = 'now()',
    ) => {
      await sql`insert into crm_received_messages (organization_id, integration_id, provider_id, sender, body, received_at)
        select g.organization_id, g.id, ${fresh('message')} || m.place, m.sender, m.body, ${sql.raw(at)}
        from crm_integrations g, unnest(${senders}::text[], ${texts}::text[]) with ordinality m(sender, body, place)
        where g.id = ${integration}::bigint`.execute(tablesOf(instance().database));
    };
    const send = async (recipient: string, body: string, status: string) => {
      await tablesOf(instance().database)
        .insertInto('crm_messages')
        .values({
          ...{ organization_id: acme.id, recipient, body, template: '', status },
          ...{ provider_id: null, error: null },
        })
        .execute();
    };

    test('a received message appears with its sender, integration and text', async () => {
      const id = await create({ name: 'Ann', phone: '+1 (555) 010-7001' });
      const whatsapp = await integrate(instance(), acme, 'whatsapp');
      const body = whatsappBody({
        messages: [
          { from: '15550107001', id: fresh('wamid'), type: 'text', text: { body: 'Hi <b>there</b>' } },
        ],
      });
      assert.equal((await deliver(instance(), whatsapp, body)).status, 200);
      await until(async () => entriesIn(await page(id)).length > 1, 'the message');
      assert.deepEqual(entriesIn(await page(id)), [
        { text: 'Message from +1 (555) 010-7001 through whatsapp', message: 'Hi &lt;b&gt;there&lt;/b&gt;' },
        { text: 'Created by admin', message: undefined },
      ]);
      assert.equal(
        entriesIn(await page(id, german))[0]?.text,
        'Nachricht von +1 (555) 010-7001 über whatsapp',
      );
      // Messages can be older than the record.
      await receive(whatsapp.id, ['15550107001'], ['Before'], "now() - interval '1 day'");
      assert.equal(entriesIn(await page(id)).at(-1)?.message, 'Before');
    });

    test('only messages from phone numbers to the organization match', async () => {
      const digits = '15550107002';
      // Both fields contain the same number.
      const id = await create({ name: 'Ben', phone: `+${digits}`, mobile: '+1 555 010 7002' });
      const other = await instance().organization('other');
      const added = async (provider: string, organization = acme) =>
        (await integrate(instance(), organization, provider)).id;
      await receive(await added('telegram'), [digits], ['the ID of a user']);
      await receive(await added('messenger'), [digits], ['the ID of another user']);
      await receive(await added('whatsapp', other), [digits], ['in another organization']);
      const twilio = await added('twilio');
      await receive(
        twilio,
        [
          `messenger:${digits}`,
          `+${digits}0`,
          digits.slice(1),
          '',
          '(-)',
          `whatsapp:+${digits}`,
          `00${digits}`,
        ],
        ['an ID', 'another number', 'a shorter number', 'nobody', 'punctuation', 'WhatsApp', 'SMS'],
      );
      assert.deepEqual(messagesIn(await page(id)), ['SMS', 'WhatsApp']);
      assert.deepEqual(messagesIn(await page(await create({ name: 'Nobody', email: 'none' }))), []);
      assert.deepEqual(messagesIn(await page(await create({ name: 'Not an address', email: digits }))), []);
      const long = `+${digits}${'0'.repeat(3000)}`;
      await receive(twilio, [long], ['a long number']);
      assert.deepEqual(
        messagesIn(await page(id)),
        ['SMS', 'WhatsApp'],
        'a number that is too long for the index',
      );
    });

    test('in an organization with a country, every notation of the number matches', async () => {
      const berlin = await instance().organization('berlin');
      await runCommand(instance(), ['org', 'phone-region', 'berlin', 'DE']);
      const visitor = await signIn(instance(), administratorOf(berlin));
      const { id: integration } = await integrate(instance(), berlin, 'whatsapp');
      await receive(integration, ['491711234567', '491711234568']);
      for (const phone of ['0171 1234567', '+49 (0)171 1234567', '0049 171/1234567']) {
        const id = await create({ name: phone, phone }, berlin);
        const answer = await visitor.get(`/setup/o/berlin/data/callers/${id}`);
        assert.deepEqual(messagesIn(answer), ['491711234567'], phone);
        assert.equal(entriesIn(answer).at(-1)?.text, `Message from ${phone} through whatsapp`);
      }
    });

    test('sent messages appear with their state, found by phone number or email address', async () => {
      const id = await create({ name: 'Cy', phone: '+15550107003', email: 'Cy@People.example' });
      for (const status of ['failed', 'sent', 'delivered', 'read', 'archived'])
        await send('+1 555 010 7003', `is ${status}`, status);
      await send('cy@people.EXAMPLE', 'by email', 'sent');
      await send('dy@people.example', 'to another person', 'sent');
      const states = async (headers = {}) =>
        entriesIn(await page(id, headers))
          .slice(0, 6)
          .map(({ text }) => text);
      assert.deepEqual(await states(), [
        'Message to Cy@People.example Sent',
        ...['archived', 'Read', 'Delivered', 'Sent', 'Failed'].map(
          (state) => `Message to +15550107003 ${state}`,
        ),
      ]);
      assert.deepEqual(await states(german), [
        'Nachricht an Cy@People.example Gesendet',
        ...['archived', 'Gelesen', 'Zugestellt', 'Gesendet', 'Fehlgeschlagen'].map(
          (state) => `Nachricht an +15550107003 ${state}`,
        ),
      ]);
      assert.equal(messagesIn(await page(id))[0], 'by email');
    });

    test('only members who can read all phone numbers and email addresses see messages', async () => {
      const [phone, mobile] = ['+15550107004', '+15550107005'];
      const id = await create({ name: 'Di', phone, mobile });
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      await receive(integration, [phone, mobile]);
      await send(mobile, 'sent to the hidden number', 'sent');
      const seenBy = async (grants: readonly string[]) => {
        const visitor = await signIn(instance(), await limitedPerson(instance(), acme, grants));
        return messagesIn(await visitor.get(`${data}/callers/${id}`));
      };
      // They could create a record with a number that is hidden from them.
      const others = ['leads:read', 'contacts:read'];
      assert.deepEqual(await seenBy([...others, 'callers:read']), []);
      assert.deepEqual(await seenBy([...others, 'callers:read:ours', 'callers.private:read']), []);
      assert.deepEqual(await seenBy(['callers:read', 'callers.private:read']), []);
      assert.deepEqual(await seenBy([...others, 'callers:read', 'callers.private:read']), [
        'sent to the hidden number',
        mobile,
        phone,
      ]);
    });

    test('a long message is truncated', async () => {
      const id = await create({ name: 'Ed', phone: '+15550107006' });
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      const texts = ['ä'.repeat(5000), 'ö'.repeat(4001), 'ü'.repeat(4000)];
      await receive(integration, ['15550107006', '15550107006', '15550107006'], texts);
      assert.deepEqual(messagesIn(await page(id)), [
        'ü'.repeat(4000),
        `${'ö'.repeat(4000)}…`,
        `${'ä'.repeat(4000)}…`,
      ]);
    });

    test('a page ends after 50,000 characters of messages', async () => {
      const id = await create({ name: 'Eve', phone: '+15550107016' });
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      const texts = Array.from({ length: 14 }, (_, index) => String(index).padEnd(4000, 'x'));
      await receive(
        integration,
        texts.map(() => '15550107016'),
        texts,
      );
      const first = await page(id);
      const older = await admin.get(olderIn(first));
      const pages = [first, older].map(messagesIn);
      assert.deepEqual(pages.flat(), texts.toReversed());
      assert.deepEqual(
        pages.map(({ length }) => length),
        [12, 2],
      );
      assert.equal(olderIn(older), '');
    });

    test('pages contain every entry once, also if many have the same time', async () => {
      const [phone, email] = ['+15550107007', 'flo@people.example'];
      const id = await create({ name: '0', phone, email });
      for (let change = 1; change <= 24; change++) {
        const body = { name: String(change) };
        assert.equal(
          (await instance().call(`PATCH /api/v1/callers/${id}`, { key: acme.key, body })).status,
          200,
        );
      }
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      // At the times of four changes, of which one is the last on its page and one the first on the next.
      const times = [5, 6, 10, 25].map(
        (version) =>
          `(select at from crm_ledger where object = 'callers' and object_id = ${id} and version = ${version})`,
      );
      const texts = (name: string, count: number) =>
        Array.from({ length: count }, (_, index) => `${name} ${index}`);
      for (const [index, time] of times.entries()) {
        const received = texts(`received ${index}`, 70);
        await receive(
          integration,
          received.map(() => phone),
          received,
          time,
        );
        const tables = tablesOf(instance().database);
        await sql`insert into crm_messages (organization_id, recipient, body, template, status, created_at)
          select ${acme.id}::bigint, ${email}, n, '', 'sent', ${sql.raw(time)}
          from unnest(${texts(`sent ${index}`, 60)}::text[]) n`.execute(tables);
        await sql`insert into crm_notes (organization_id, resource, record_id, author_id, text, created_at)
          select ${acme.id}::bigint, 'callers', ${id}::bigint, ${acme.user}::bigint, n, ${sql.raw(time)}
          from unnest(${texts(`noted ${index}`, 3)}::text[]) n`.execute(tables);
      }
      const messages: string[] = [];
      const changes: string[] = [];
      for (let url = `${data}/callers/${id}`; url !== ''; ) {
        const answer = await admin.get(url);
        assert.equal(answer.status, 200);
        const entries = entriesIn(answer);
        assert.ok(entries.length <= 75, `${entries.length} entries on one page`);
        messages.push(...entries.flatMap(({ message }) => message ?? []));
        changes.push(
          ...[...answer.text.matchAll(/<p>(Changed|Created) by/g)].map(([, action = '']) => action),
        );
        url = olderIn(answer);
      }
      const expected = [3, 2, 1, 0].flatMap((index) => [
        ...texts(`noted ${index}`, 3).toReversed(),
        ...texts(`sent ${index}`, 60).toReversed(),
        ...texts(`received ${index}`, 70).toReversed(),
      ]);
      assert.deepEqual(messages, expected);
      assert.deepEqual(changes, [...Array.from({ length: 24 }, () => 'Changed'), 'Created']);
    });

    test('positions that do not exist are ignored', async () => {
      const id = await create({ name: 'Gil', phone: '+15550107008' });
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      await receive(integration, ['15550107008'], ['Hello']);
      for (const query of [
        'until=yesterday&entry=notes.1',
        'until=2999-13-45T00:00:00Z&entry=notes.1',
        'until=2999-01-01T00:00:00Z&entry=other.1',
        'until=2999-01-01T00:00:00Z&entry=received-messages.99999999999999999999',
        "until=2999-01-01T00:00:00Z&entry=received-messages.1'",
        'entry=notes.1&entry=notes.2',
      ])
        assert.deepEqual(messagesIn(await admin.get(`${data}/callers/${id}?${query}`)), ['Hello'], query);
    });
  },
  { sources },
);

/** Returns the links to deliveries on a page, with their accessible names and labels. */
const deliveryLinksIn = ({ text }: Answer) =>
  [...text.matchAll(/<a href="([^"]*)" aria-label="([^"]*)">([^<]*)<\/a>/g)]
    .map(([, href = '', name = '', label = '']) => ({
      href: readable(href),
      name: readable(name),
      label: readable(label),
    }))
    .filter(({ href }) => href.startsWith('/setup/o/acme/events/item?id='));

onBothDrivers(
  'events in timelines',
  (instance) => {
    let acme: Organization;
    let admin: Visitor;
    let key: string;
    const subscriptions: string[] = [];
    before(async () => {
      acme = await instance().organization('acme');
      admin = await signIn(instance(), administratorOf(acme));
      key = await acme.keyWith([
        { object: 'events', actions: ['*'] },
        { object: '*', actions: ['*'] },
      ]);
    });
    const call = async (request: string, body: object = {}) => {
      const answer = await instance().call(request, { key, body });
      assert.ok(answer.status < 300, answer.text);
      return answer;
    };
    const create = async (name: string): Promise<string> =>
      String((await call('POST /api/v1/callers', { name })).json.id);
    const change = (id: string, name: string) => call(`PATCH /api/v1/callers/${id}`, { name });
    const subscribe = async (behaviour: Behaviour, body: object = {}, path = `/${fresh('hook')}`) => {
      receiver.behave(path, behaviour);
      const url = `${receiver.url}${path}?token=secret`;
      receiver.behave(`${path}?token=secret`, behaviour);
      await settledFeed(instance());
      const { json } = await call('POST /events/subscriptions', { url, resources: ['callers'], ...body });
      subscriptions.push(String(json.id));
      return { id: String(json.id), name: `${host}${path}` };
    };
    afterEach(async () => {
      for (const id of subscriptions.splice(0))
        await instance().call(`DELETE /events/subscriptions/${id}`, { key });
    });
    const page = (id: string, headers = {}, visitor = admin) => visitor.get(`${data}/callers/${id}`, headers);
    /** Waits until the newest entries of a record are these. */
    const showsFirst = async (id: string, ...expected: readonly string[]) => {
      let texts: string[] = [];
      await until(async () => {
        texts = entriesIn(await page(id)).map(({ text }) => text.replace(/ by .*/, ''));
        return JSON.stringify(texts.slice(0, expected.length)) === JSON.stringify(expected);
      }, `${expected.join()} instead of the entries`).catch((cause: unknown) =>
        assert.fail(`${String(cause)}: ${texts.join()}`),
      );
    };
    const stored = async (id: string, columns: string) => {
      await sql`update crm_event_deliveries set ${sql.raw(columns)} where object_id = ${id}::bigint`.execute(
        tablesOf(instance().database),
      );
    };

    test('an event appears above its change, with its state and a link to its delivery', async () => {
      const hook = await subscribe((response) => response.writeHead(500).end());
      const id = await create('Ann');
      await showsFirst(id, `Event sent to ${hook.name} Retrying`, 'Created');
      // Of a record of another resource with the same ID.
      await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, object_id, version, action, at, status, done_at)
        select organization_id, id, 'other', 'leads', ${id}::bigint, 7, 'update', now(), 'done', now()
        from crm_event_subscriptions where id = ${hook.id}::bigint`.execute(tablesOf(instance().database));
      const shown = await page(id);
      assert.doesNotMatch(shown.text, /token=secret/);
      assert.match(
        shown.text,
        /<span class="badge state quiet">Retrying<\/span> <span class="below">The receiver responded with 500 · /,
      );
      const [link, ...others] = deliveryLinksIn(shown);
      assert.deepEqual(others, []);
      assert.deepEqual([link?.label, link?.name], ['Show delivery', `Show delivery to ${hook.name}`]);
      assert.match((await admin.get(link?.href ?? '')).text, /The receiver responded with 500/);
      assert.match(
        (await page(id, german)).text,
        /<p>Ereignis gesendet an [^<]* <span class="badge state quiet">Wird wiederholt<[\s\S]*>Zustellung anzeigen</,
      );
      await stored(id, "status = 'dead', done_at = now()");
      await showsFirst(id, `Event sent to ${hook.name} Failed`);
      assert.match((await page(id)).text, /<span class="badge state bad">Failed</);
      await call(`DELETE /events/subscriptions/${hook.id}`);
      await showsFirst(id, 'Created');
    });

    test('a sent record contains no sensitive fields, and the URL of its receiver is truncated', async () => {
      const path = `/${fresh('hook')}/${'a'.repeat(100)}`;
      const hook = await subscribe(204, {}, path);
      const { json } = await call('POST /api/v1/callers', { name: 'Ada', pin: 'the number of a card' });
      await showsFirst(String(json.id), `Event sent to ${hook.name.slice(0, 80)}… Delivered`, 'Created');
      const [sent, ...others] = receiver.at(`${path}?token=secret`);
      assert.deepEqual(others, []);
      assert.equal(sent?.event.data.record?.name, 'Ada');
      assert.doesNotMatch(sent?.text ?? '', /the number of a card|"pin"/);
    });

    test('an event that was not sent does not say so', async () => {
      const hook = await subscribe(204, { filter_when: 'leaves', filter: 'name=Other' });
      const id = await create('Ben');
      await change(id, 'Benjamin');
      await showsFirst(id, `Event for ${hook.name} Not sent`, 'Changed');
    });

    test('the events of a version to several receivers are one entry', async () => {
      const hooks = [await subscribe(204), await subscribe(503), await subscribe(204)];
      const id = await create('Cy');
      const names = (...states: readonly string[]) =>
        [hooks[1], hooks[0], hooks[2]].map((hook, index) => `${hook?.name}: ${states[index]}`);
      await showsFirst(id, 'Event sent to 3 receivers Retrying', 'Created');
      await until(
        async () =>
          JSON.stringify(deliveryLinksIn(await page(id)).map(({ label }) => label)) ===
          JSON.stringify(names('Retrying', 'Delivered', 'Delivered')),
        'the deliveries',
      );
      assert.match((await page(id, german)).text, /Ereignis gesendet an 3 Empfänger/);
      const more = [await subscribe(204), await subscribe(204), await subscribe(204)];
      await change(id, 'Cyd');
      await showsFirst(
        id,
        // The event to one receiver waits for the previous one.
        'Event for 6 receivers Waiting',
        'Changed',
        'Event sent to 3 receivers Retrying',
      );
      assert.equal(deliveryLinksIn(await page(id)).length, 5 + 3);
      // A waiting delivery would be among the first five.
      await until(
        async () =>
          deliveryLinksIn(await page(id)).filter(({ label }) => label.endsWith(': Delivered')).length ===
          4 + 2,
        'the deliveries to the others',
      );
      const failed = (hook: { readonly id: string } | undefined, version: number) =>
        sql`update crm_event_deliveries set status = 'dead' where subscription_id = ${hook?.id}::bigint
          and object_id = ${id}::bigint and version = ${version}::bigint`.execute(
          tablesOf(instance().database),
        );
      await failed(hooks[2], 1);
      await failed(more[2], 2);
      const labels = deliveryLinksIn(await page(id)).map(({ label }) => label);
      assert.deepEqual(
        [labels.slice(0, 2), labels.slice(5)],
        [
          [`${more[2]?.name}: Failed`, `${hooks[1]?.name}: Waiting`],
          [`${hooks[2]?.name}: Failed`, `${hooks[1]?.name}: Retrying`, `${hooks[0]?.name}: Delivered`],
        ],
      );
    });

    test('the event of a batch leads to its batch', async () => {
      const hook = await subscribe(204, { batch: { max_events: 2, max_wait_seconds: 300 } });
      const id = await create('Di');
      await showsFirst(id, `Event for ${hook.name} Waiting`);
      const other = await create('Ed');
      await showsFirst(id, `Event sent to ${hook.name} Delivered`);
      const [link] = deliveryLinksIn(await page(id));
      assert.equal(deliveryLinksIn(await page(other))[0]?.href, link?.href);
      assert.match((await admin.get(link?.href ?? '')).text, /Batch of 2 events: Caller \d+ created/);
    });

    test('only administrators who can open the deliveries see them', async () => {
      const hook = await subscribe(204);
      const id = await create('Flo');
      await showsFirst(id, `Event sent to ${hook.name} Delivered`);
      const grants = ['*:*', 'events:*', 'members:*'];
      const person = await limitedPerson(instance(), acme, grants);
      const visitor = await signIn(instance(), person);
      assert.deepEqual(
        entriesIn(await page(id, {}, visitor)).map(({ text }) => text.replace(/ by .*/, '')),
        ['Created'],
      );
      // An administrator who views the records as a profile sees what its members see.
      const { rows } = await sql<{ id: string }>`select id::text as id from crm_profiles
        where organization_id = ${acme.id}::bigint and name = ${person.profile}`.execute(
        tablesOf(instance().database),
      );
      const [viewed] = rows;
      const form = '/setup/o/acme/profiles/view-as';
      const administrator = await signIn(instance(), administratorOf(acme));
      await administrator.submit(`${form}?id=${viewed?.id}`, form);
      const asProfile = await page(id, {}, administrator);
      assert.match(asProfile.text, /action="\/setup\/o\/acme\/view-as\/stop"/);
      assert.doesNotMatch(asProfile.text, /Event sent/);
    });

    test('pages contain the events of every version once', async () => {
      const id = await create('0');
      const hooks = [
        await subscribe(204, { resources: ['leads'] }),
        await subscribe(204, { resources: ['leads'] }),
      ];
      for (let number = 1; number <= 24; number++) await change(id, String(number));
      // Also versions without a change on the page, all at the time of one change.
      await sql`insert into crm_event_deliveries (organization_id, subscription_id, event_id, object, object_id, version, action, at, status, done_at)
        select l.organization_id, s.id, 'event ' || v, 'callers', l.object_id, v, 'update', l.at, 'done', now()
        from crm_ledger l, unnest(${hooks.map((hook) => hook.id)}::text[]::bigint[]) s(id), generate_series(101, 220) v
        where l.object = 'callers' and l.object_id = ${id}::bigint and l.version = 10`.execute(
        tablesOf(instance().database),
      );
      const hrefs: string[] = [];
      const changes: string[] = [];
      for (let url = `${data}/callers/${id}`; url !== ''; ) {
        const answer = await admin.get(url);
        assert.equal(answer.status, 200);
        hrefs.push(...deliveryLinksIn(answer).map(({ href }) => href));
        changes.push(
          ...entriesIn(answer)
            .map(({ text }) => text)
            .filter((text) => !text.startsWith('Event')),
        );
        url = olderIn(answer);
      }
      assert.equal(hrefs.length, 240);
      assert.equal(new Set(hrefs).size, 240);
      assert.equal(changes.length, 25);
    });
  },
  { environment: settingsFile(eventsTo(receiver.port)).environment, sources },
);
