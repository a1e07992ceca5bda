// A service that is killed at any moment has lost nothing that it acknowledged.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import {
  assertRefused,
  crm,
  emptyStorage,
  type Service,
  type Storage,
  serve,
  until,
} from '../support/process.ts';
import { exactRecord, numberText, walk } from '../support/reading.ts';

const rounds = 20;
const clients = 4;

/** A lead as it was sent, and the id it was given where that was told. */
interface Sent {
  readonly body: Readonly<Record<string, string | number>>;
  id?: string;
}

interface Sending {
  readonly key: string;
  readonly round: number;
  readonly client: number;
  readonly sent: Sent[];
  readonly killed: () => boolean;
}

/** Sends leads, one after another, until the service is gone. */
async function sendLeads({ call }: Service, { key, round, client, sent, killed }: Sending): Promise<void> {
  // Far more than a round lasts.
  for (let count = 0; count < 5000; count++) {
    const last_name = `${round} ${client} ${count}`;
    const body = { last_name, rating: `round ${round}`, lead_score: count, description: '☃'.repeat(count) };
    const lead: Sent = { body };
    sent.push(lead);
    try {
      const answer = await call('POST /api/v1/leads', { key, body });
      assert.equal(answer.status, 201, answer.text);
      lead.id = numberText(exactRecord(answer.text).id);
    } catch (cause) {
      if (!killed()) throw cause;
      return;
    }
  }
  assert.fail('the service was not killed');
}

/** Every acknowledged lead of some rounds is there as it was sent, none is there twice, and there are no others. */
async function checkLeads(
  service: Service,
  key: string,
  rounds: readonly number[],
  sent: readonly Sent[],
): Promise<void> {
  const query = rounds.map((round) => `rating=round+${round}`).join('&');
  const found = (await walk(service, '/api/v1/leads', query, key)).flat();
  const byName = new Map(found.map((record) => [String(record.last_name), record]));
  assert.equal(byName.size, found.length, 'none is doubled');
  for (const { body, id } of sent) {
    const record = byName.get(String(body.last_name));
    byName.delete(String(body.last_name));
    if (record === undefined) {
      assert.equal(id, undefined, `${body.last_name} was acknowledged as ${id} and is lost`);
      continue;
    }
    if (id !== undefined) assert.equal(numberText(record.id), id);
    assert.deepEqual(
      [record.rating, record.lead_score, record.description],
      [body.rating, { number: String(body.lead_score) }, body.description],
    );
  }
  assert.deepEqual([...byName.keys()], [], 'nothing that nobody sent');
}

describe('kill -9 on the embedded database', { concurrency: 1 }, () => {
  let storage: Storage;
  before(async () => {
    storage = await emptyStorage('embedded');
  });
  after(() => storage.remove());

  test(`${rounds} times while clients write: no acknowledged record is lost or doubled`, async (t) => {
    let key = '';
    const sent: Sent[] = [];
    let last: readonly Sent[] = [];
    for (let round = 0; round <= rounds; round++) {
      const service = await serve(storage.environment);
      key ||= String(service.printed.key);
      if (round > 0) await checkLeads(service, key, [round - 1], last);
      if (round === rounds) {
        // What was there after one start is there after every later one.
        await checkLeads(service, key, [...Array(rounds).keys()], sent);
        await service.kill();
        break;
      }
      const lists = Array.from({ length: clients }, (): Sent[] => []);
      let gone = false;
      const killed = () => gone;
      const sending = lists.map((list, client) =>
        sendLeads(service, { key, round, client, sent: list, killed }),
      );
      const told = () => lists.flat().filter(({ id }) => id !== undefined).length;
      const enough = 1 + Math.floor(Math.random() * 60);
      const all = Promise.all(sending);
      await Promise.race([all, until(() => told() >= enough, 'acknowledgements', 30_000)]);
      // Anywhere between two acknowledgements.
      await pause(Math.random() * 5);
      gone = true;
      await service.kill();
      await all;
      last = lists.flat();
      sent.push(...last);
    }
    t.diagnostic(`${sent.filter(({ id }) => id !== undefined).length} acknowledged records`);
  });

  test('the folder is locked while a process lives, and free right after its kill -9', async () => {
    const { environment, folder } = storage;
    const message = `the data folder ${folder} is in use by another process; stop it, or choose another with DATA_DIR`;
    const first = await serve(environment);
    for (const command of [
      ['serve', '--json'],
      ['org', 'create', 'second'],
      ['key', 'list', '--org', 'demo'],
    ]) {
      assertRefused(await crm(command, { ...environment, PORT: '0' }), message);
    }
    assert.equal((await first.call('GET /docs/openapi.json')).status, 200);
    await first.kill();
    assert.equal((await crm(['key', 'list', '--org', 'demo'], environment)).code, 0);
    const second = await serve(environment);
    assert.deepEqual(Object.keys(second.printed), ['url', 'database']);
    await second.kill();
  });
});
