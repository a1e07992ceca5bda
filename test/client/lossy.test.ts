// Creates each record once through a network that loses three of ten responses.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { type CrmClient, createClient } from '../../client/src/index.ts';
import { badNetwork, type Fate, type Network } from '../support/bad-network.ts';
import { onBothDrivers } from '../support/instance.ts';

/**
 * Fates of ten requests. Three of them do not get a complete response, although two of these are executed.
 */
const fates: readonly Fate[] = ['lose', 'half', 'drop', ...Array<Fate>(7).fill('pass')];

onBothDrivers('The client on a lossy network', (instance) => {
  let network: Network;
  let crm: CrmClient;
  before(async () => {
    network = await badNetwork(instance().url);
    const { key } = await instance().organization('alpha');
    // The probability of losing 20 in a row is below 10^-10.
    crm = createClient({ url: network.url, key, retries: 20, maxWait: 1000 });
  });
  after(() => network.close());

  test('creates each record once', async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 25 }),
        fc.infiniteStream(fc.constantFrom(...fates)),
        async (count, stream) => {
          network.decide = () => stream.next().value ?? 'pass';
          const source = `lossy ${run++}`;
          const companies = Array.from({ length: count }, (_, index) => `company ${index}`);
          const made = await Promise.all([
            ...companies.map((company) => crm.leads.create({ company, source })),
            crm.leads.createMany([
              { company: 'first of two', source },
              { company: 'second of two', source },
            ]),
          ]);
          assert.equal(new Set(made.flat().map(({ id }) => id)).size, count + 2);
          network.decide = () => 'pass';
          const stored = [];
          for await (const { company } of crm.leads.all({ where: { source }, sort: 'id' }))
            stored.push(company);
          assert.deepEqual(stored.sort(), [...companies, 'first of two', 'second of two'].sort());
        },
      ),
      { numRuns: 6, endOnFailure: true },
    );
    const creates = network.arrived.filter(({ method }) => method === 'POST');
    const calls = new Set(creates.map(({ headers }) => headers['idempotency-key'])).size;
    assert.ok(creates.length > calls, 'responses were lost');
  });
});
