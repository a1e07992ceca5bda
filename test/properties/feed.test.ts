// A client that reads only the change feed ends with exactly the database's state, regardless of concurrent
// writes.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import fc from 'fast-check';
import { noGrants } from '../../engine/records/index.ts';
import { creatingRecords } from '../../engine/records/record-resource.ts';
import { Copy } from '../support/copy.ts';
import { diceOf } from '../support/dice.ts';
import { drivers, type Instance, type Organization, startInstance } from '../support/instance.ts';
import { settledFeed } from '../support/receiver.ts';

const resources = ['accounts', 'contacts', 'leads'] as const;
const [writers, writesOfEach] = [6, 30];

for (const driver of drivers) {
  describe(`the change feed (${driver})`, () => {
    const nodes: Instance[] = [];
    let acme: Organization;
    before(async () => {
      const shared = { AUTH_SECRETS: 'a secret that all nodes of the test share' };
      const first = await startInstance(driver, { environment: shared, ownServer: true });
      nodes.push(first);
      if (driver === 'postgresql') {
        const { DATABASE_URL } = first.config.environment;
        nodes.push(
          await startInstance(driver, { environment: { ...shared, DATABASE_URL: String(DATABASE_URL) } }),
        );
      }
      acme = await first.organization('acme');
    });
    after(async () => {
      for (const node of nodes.reverse()) await node.close();
    });

    /** IDs of records that might exist. Other clients can have deleted them. */
    type Ids = Record<(typeof resources)[number], number[]>;

    /** Executes one random write. */
    async function write(dice: () => number, ids: Ids): Promise<void> {
      const choose = <T>(all: readonly T[]): T => all[Math.floor(dice() * all.length)] as T;
      const call = (request: string, body?: unknown) =>
        choose(nodes).call(request.replace(' ', ' /api/v1/'), {
          key: acme.key,
          ...(body !== undefined && { body }),
        });
      const name = `n${Math.floor(dice() * 1e9)}`;
      const account = choose(ids.accounts) ?? null;
      const contact = { last_name: name, account_id: account };
      const ways: readonly (() => Promise<unknown>)[] = [
        async () => ids.accounts.push(Number((await call('POST accounts', { name })).json.id)),
        async () => {
          const made = await call('POST contacts', contact);
          // The account might have been deleted.
          if (made.status === 201) ids.contacts.push(Number(made.json.id));
        },
        () => call(`PUT contacts/${choose(ids.contacts)}`, contact),
        () => call(`PATCH accounts/${choose(ids.accounts)}`, { name }),
        () => call(`DELETE accounts/${account}`),
        () => call('DELETE accounts/batch', { ids: [...new Set([account, choose(ids.accounts)])] }),
        async () => {
          const { json } = await call('POST leads/batch', {
            records: [{ last_name: name }, { last_name: 'b' }],
          });
          ids.leads.push(...(json.results as { id: number }[]).map(({ id }) => id));
        },
        // One record is missing, so nothing is written.
        () =>
          call('PATCH leads/batch', {
            records: [{ id: choose(ids.leads) ?? 1, last_name: name }, { id: 999999999 }],
          }),
        () => call(`DELETE leads/${choose(ids.leads)}`),
        () => inTransaction(dice, ids, name),
      ];
      await choose(ways)();
    }

    /** Executes several writes in a slow transaction, which is sometimes rolled back. */
    async function inTransaction(dice: () => number, ids: Ids, name: string): Promise<void> {
      const [{ database, resources }] = nodes as [Instance];
      const principal = {
        kind: 'partner',
        actor: null,
        name: 'test',
        organization: acme.id,
        user: null,
        grants: noGrants,
      } as const;
      const undone = new Error('rolled back');
      const made: number[] = [];
      await creatingRecords(database, resources, { principal, requestId: 'r' }, async (write) => {
        // The transaction is repeated after a deadlock.
        made.length = 0;
        const id = await write.create('leads', { last_name: name });
        made.push(Number(id));
        await pause(dice() * 30);
        const other = ids.leads[Math.floor(dice() * ids.leads.length)];
        if (other !== undefined) await write.patch('leads', String(other), { first_name: name });
        await write.patch('leads', id, { first_name: name });
        await pause(dice() * 30);
        if (dice() < 0.4) throw undone;
      }).catch((cause: unknown) => {
        made.length = 0;
        if (cause !== undone) throw cause;
      });
      ids.leads.push(...made);
    }

    test('ends with the state of the database', async () => {
      const get = (path: string) => {
        const node = nodes[Math.floor(Math.random() * nodes.length)] as Instance;
        return node.call(`GET ${path}`, { key: acme.key });
      };
      await fc.assert(
        fc.asyncProperty(fc.integer(), async (seed) => {
          const dice = diceOf(seed);
          const copy = new Copy(get);
          const ids: Ids = { accounts: [], contacts: [], leads: [] };
          let isDone = false;
          const reading = copy.follow(() => isDone);
          await Promise.all(
            Array.from({ length: writers }, async () => {
              for (let count = 0; count < writesOfEach; count++) await write(dice, ids);
            }),
          );
          for (const node of nodes) await settledFeed(node);
          isDone = true;
          await reading;
          for (const resource of resources) {
            assert.deepEqual(copy.recordsOf(resource), await copy.stored(resource), resource);
          }
        }),
        { numRuns: driver === 'embedded' ? 2 : 6 },
      );
    });
  });
}
