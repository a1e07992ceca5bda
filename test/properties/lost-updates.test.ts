// Clients that read, modify and write with If-Match never lose an update, regardless of other changes to the
// record.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { onBothDrivers } from '../support/instance.ts';

/** A client's changes to the record. Each change adds a marker to its subject. */
const client = fc.record({ changes: fc.integer({ min: 1, max: 5 }) });
/** Changes to the referenced records, which also change the record. */
const events = fc.array(fc.constantFrom('rename', 'delete'), { maxLength: 3 });

onBothDrivers('Read, modify, write', (instance) => {
  let key: string;
  before(async () => {
    ({ key } = await instance().organization('alpha'));
  });

  test('keeps every acknowledged change, in any order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(client, { minLength: 2, maxLength: 4 }),
        events,
        async (clients, happening) => {
          const post = async (resource: string, body: object) => {
            const { json } = await instance().call(`POST /api/v1/${resource}`, { key, body });
            return json.id as number;
          };
          const account = await post('accounts', { name: 'a' });
          const path = `/api/v1/cases/${await post('cases', { account_id: account })}`;
          const change = async (mark: string) => {
            for (;;) {
              const read = await instance().call(`GET ${path}`, { key });
              const answer = await instance().call(`PUT ${path}`, {
                key,
                body: { ...read.json, subject: `${read.json.subject} ${mark}` },
                headers: { 'if-match': read.headers.get('etag') ?? '' },
              });
              if (answer.status === 200) return;
              // 400: the referenced account has been deleted since the read.
              assert.ok([412, 400].includes(answer.status), answer.text);
            }
          };
          const marks = clients.map(({ changes }, index) =>
            Array.from({ length: changes }, (_, nth) => `${index}.${nth}`),
          );
          await Promise.all([
            ...marks.map(async (own) => {
              for (const mark of own) await change(mark);
            }),
            (async () => {
              for (const event of happening) {
                await instance().call(
                  event === 'delete'
                    ? `DELETE /api/v1/accounts/${account}`
                    : `PUT /api/v1/accounts/${account}`,
                  { key, ...(event === 'rename' && { body: { name: 'b' } }) },
                );
              }
            })(),
          ]);
          const { json } = await instance().call(`GET ${path}`, { key });
          assert.deepEqual(String(json.subject).trim().split(' ').sort(), marks.flat().sort());
        },
      ),
      { numRuns: 8 },
    );
  });
});
