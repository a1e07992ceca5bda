// The timeline of a record: messages from and to its person, in the right order and without gaps between pages.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { tablesOf } from '../../engine/tables/handle.ts';
import { whatsappBody } from '../support/channels.ts';
import { runCommand } from '../support/command-line.ts';
import { administratorOf, readable, signIn, type Visitor } from '../support/forms.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedPerson } from '../support/limited.ts';
import { deliver, integrate } from '../support/partners.ts';
import { fresh } from '../support/people.ts';
import { until } from '../support/process.ts';
import { sourcesWith } from '../support/sources.ts';

const german = { 'accept-language': 'de' };
const data = '/setup/o/acme/data';
const sources = await sourcesWith({
  file: 'callers.yaml',
  text: `common: all
fields:
  name: { type: string }
  phone: { type: string, format: phone }
  mobile: { type: string, format: phone, group: private }
  email: { type: string, lookup: caseless }
  note: { type: string }
sort: { by: id }
`,
});

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
    });

    test('only messages from phone numbers to the organization match', async () => {
      const digits = '15550107002';
      const id = await create({ name: 'Ben', phone: `+${digits}` });
      const other = await instance().organization('other');
      const added = async (provider: string, organization = acme) =>
        (await integrate(instance(), organization, provider)).id;
      await receive(await added('telegram'), [digits], ['the ID of a user']);
      await receive(await added('messenger'), [digits], ['the ID of another user']);
      await receive(await added('whatsapp', other), [digits], ['in another organization']);
      const twilio = await added('twilio');
      await receive(
        twilio,
        [`messenger:${digits}`, `+${digits}0`, digits.slice(1), '', `whatsapp:+${digits}`, `00${digits}`],
        ['an ID', 'another number', 'a shorter number', 'nobody', 'WhatsApp', 'SMS'],
      );
      assert.deepEqual(messagesIn(await page(id)), ['SMS', 'WhatsApp']);
      assert.deepEqual(messagesIn(await page(await create({ name: 'Nobody' }))), []);
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

    test('members see the messages of the fields that they can read', async () => {
      const [phone, mobile] = ['+15550107004', '+15550107005'];
      const id = await create({ name: 'Di', phone, mobile });
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      await receive(integration, [phone, mobile]);
      await send(mobile, 'sent to the hidden number', 'sent');
      const seenBy = async (grants: readonly string[]) => {
        const visitor = await signIn(instance(), await limitedPerson(instance(), acme, grants));
        return messagesIn(await visitor.get(`${data}/callers/${id}`));
      };
      assert.deepEqual(await seenBy(['callers:read']), [phone]);
      assert.deepEqual(await seenBy(['callers:read', 'callers.private:read']), [
        'sent to the hidden number',
        mobile,
        phone,
      ]);
    });

    test('a long message is truncated', async () => {
      const id = await create({ name: 'Ed', phone: '+15550107006' });
      const { id: integration } = await integrate(instance(), acme, 'whatsapp');
      await receive(integration, ['15550107006'], ['ä'.repeat(5000)]);
      assert.deepEqual(messagesIn(await page(id)), [`${'ä'.repeat(4000)}…`]);
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
      // At the times of two changes, one of which is the last on its page.
      const times = [5, 10, 25].map(
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
      const expected = [2, 1, 0].flatMap((index) => [
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
