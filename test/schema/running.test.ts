// A node that runs while its database gets more: no request notices (PostgreSQL).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { drivers } from '../support/instance.ts';
import { type OwnFiles, ownFiles } from '../support/own-files.ts';
import { crm, crmJson, migratedStorage, type Service, type Storage, serve } from '../support/process.ts';

const suite = drivers.includes('postgresql') ? describe : describe.skip;

suite('a running node', { concurrency: 1 }, () => {
  let storage: Storage;
  let own: OwnFiles;
  let service: Service;
  let environment: Readonly<Record<string, string>>;
  before(async () => {
    own = ownFiles();
    storage = await migratedStorage('postgresql');
    environment = { ...storage.environment, ...own.environment };
    service = await serve(environment);
  });
  after(async () => {
    service.signal('SIGTERM');
    await service.ended;
    await storage.remove();
    own.remove();
  });

  test('goes on with the tables as it knows them while fields, indexes and a resource are added', async () => {
    const key = String(service.printed.key);
    const call = (request: string, body?: unknown) =>
      service.call(request.replace(' ', ' /api/v1/'), { key, body });
    const failures: string[] = [];
    let requests = 0;
    let isDone = false;
    const client = async () => {
      while (!isDone) {
        const made = await call('POST leads', { company: 'Busy', phone: '1' });
        const { id } = made.json;
        const answers = [
          made,
          await call(`GET leads/${id}`),
          await call(`PATCH leads/${id}`, { rating: 'Hot' }),
          await call('GET leads?rating=Hot&fields=id,rating'),
          await call('GET leads?q=busy&page=2'),
          await call('POST leads/batch', { records: [{ company: 'a' }, { company: 'b' }] }),
          await call(`DELETE leads/${id}`),
        ];
        requests += answers.length;
        failures.push(...answers.filter(({ status }) => status >= 300).map(({ text }) => text));
      }
    };
    const clients = [client(), client()];
    own.edit(
      'leads',
      '  timezone:',
      '  fax: { type: string, default: none }\n  visits: { type: int64 }\n  timezone:',
    );
    own.edit('leads', 'filters:\n', 'filters:\n  - fax\n  - { field: visits, operators: [gte] }\n');
    own.add(
      'projects',
      'common: all\nfields:\n  name: { type: string }\n  lead_id: { type: reference, to: leads, nullable: true }\n',
    );
    await crmJson(['migrate', '--create', 'more'], environment);
    assert.equal((await crm(['migrate'], environment)).code, 0);
    const before = requests;
    while (requests < before + 50 && failures.length === 0) await call('GET accounts');
    isDone = true;
    await Promise.all(clients);
    assert.deepEqual(failures, []);
    const restarted = await serve(environment);
    const made = await restarted.call('POST /api/v1/leads', { key, body: { company: 'New', visits: 1 } });
    assert.deepEqual([made.json.fax, made.json.visits], ['none', 1]);
    restarted.signal('SIGTERM');
    await restarted.ended;
  });
});
