// A batch has the same effect as single requests. When many clients concurrently upsert by the same key, one
// record is created for each key.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { entitiesFor } from '../../app/instance.ts';
import { buildService } from '../../app/serve/build.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { everyType, stored, valuesOf, wrongValues } from '../support/every-type.ts';
import { type Answer, onBothDrivers, send } from '../support/instance.ts';
import { objectText } from '../support/reading.ts';
import { sourcesWith } from '../support/sources.ts';
import { people } from '../support/unique-people.ts';

/**
 * A body for a resource with every field type. Each field is absent, null, valid or, occasionally, invalid.
 */
const loose = fc
  .tuple(
    ...stored.flatMap(([name, type]) =>
      [`n_${name}`, ...(type.empty === undefined ? [] : [`p_${name}`])].map((field) =>
        fc
          .oneof(
            { weight: 12, arbitrary: fc.constantFrom(...valuesOf(type), 'null', undefined) },
            {
              weight: 1,
              arbitrary: fc.constantFrom(...(type.refers ? ['987654321987'] : wrongValues(type))),
            },
          )
          .map((text) => [field, text] as const),
      ),
    ),
  )
  .map((fields) =>
    objectText(fields.flatMap(([name, text]) => (text === undefined ? [] : [[name, text] as const]))),
  );

onBothDrivers(
  'Batches',
  (instance, driver) => {
    let key: string;
    before(async () => {
      ({ key } = await instance().organization('alpha'));
    });
    const call = (request: string, body: string) => instance().call(request, { key, body });
    const resultsOf = ({ status, text }: Answer) => {
      assert.equal(status, 200, text);
      return (
        JSON.parse(text) as {
          results: { status: number; id?: number; code?: string; error?: string; fields?: unknown }[];
        }
      ).results;
    };
    /** Returns a record without the fields that differ between two records with the same body. */
    const shown = async (id: unknown) =>
      (await instance().call(`GET /api/v1/loose/${id}`, { key })).text.replace(/"id":\d+,/, '');

    test('creates and patches n records exactly as n single requests do', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(fc.tuple(loose, loose), { minLength: 1, maxLength: 12 }), async (pairs) => {
          const batch = resultsOf(
            await call(
              'POST /api/v1/loose/batch',
              `{"records":[${pairs.map(([body]) => body)}],"on_error":"continue"}`,
            ),
          );
          const ids: [number, number, string][] = [];
          for (const [index, [body, patch]] of pairs.entries()) {
            const single = await call('POST /api/v1/loose', body);
            const result = batch[index] ?? assert.fail();
            assert.equal(result.status, single.status, `${body} ${single.text}`);
            const { error, code, fields, id } = single.json;
            if (single.status === 201) {
              assert.equal(await shown(result.id), await shown(id));
              ids.push([Number(result.id), Number(id), patch]);
            } else assert.deepEqual([result.error, result.code, result.fields], [error, code, fields]);
          }
          if (ids.length === 0) return;
          const records = ids.map(([id, , patch]) =>
            patch.replace('{', patch === '{}' ? `{"id":${id}` : `{"id":${id},`),
          );
          const patched = resultsOf(
            await call('PATCH /api/v1/loose/batch', `{"records":[${records}],"on_error":"continue"}`),
          );
          for (const [index, [mine, other, patch]] of ids.entries()) {
            const single = await call(`PATCH /api/v1/loose/${other}`, patch);
            assert.equal(patched[index]?.status, single.status, `${patch} ${single.text}`);
            assert.equal(await shown(mine), await shown(other));
          }
        }),
        { numRuns: driver === 'postgresql' ? 25 : 8 },
      );
    });

    describe('on two nodes', () => {
      let second: { url: string; close: () => Promise<void> };
      before(async () => {
        const { config, resources, database } = instance();
        const own = driver === 'postgresql' ? await openDatabase(config, entitiesFor(resources)) : undefined;
        const app = await buildService({
          config,
          resources,
          database: own ?? database,
          secrets: instanceSecrets(config),
        });
        second = {
          url: await app.listen({ host: '127.0.0.1', port: 0 }),
          close: async () => {
            await app.close();
            await own?.close();
          },
        };
      });
      after(() => second.close());

      test('creates one record per key on concurrent upserts and reports it to every caller', async () => {
        let round = 0;
        const keys = fc.uniqueArray(fc.nat(9), { minLength: 1, maxLength: 10 });
        await fc.assert(
          fc.asyncProperty(fc.array(keys, { minLength: 2, maxLength: 8 }), async (clients) => {
            const mark = `r${round++}`;
            const email = (number: number) => `${mark}-${number}@example.com`;
            const answers = await Promise.all(
              clients.map((numbers, client) =>
                send(client % 2 === 0 ? instance().url : second.url, 'POST /api/v1/people/batch', {
                  key,
                  body: {
                    match: ['email'],
                    records: numbers.map((number) => ({ email: email(number), age: client })),
                  },
                }),
              ),
            );
            const told = new Map<string, Set<unknown>>();
            const created: string[] = [];
            for (const [client, answer] of answers.entries()) {
              for (const [index, { status, id }] of resultsOf(answer).entries()) {
                const one = email(clients[client]?.[index] ?? -1);
                told.set(one, (told.get(one) ?? new Set()).add(id));
                if (status === 201) created.push(one);
              }
            }
            assert.deepEqual(created.sort(), [...told.keys()].sort(), 'each key has one record');
            for (const ids of told.values()) assert.equal(ids.size, 1);
            const text = 'select count(*)::text from people where starts_with(email, $1::text)';
            const rows = await instance().database.run({ name: '', text, values: [`${mark}-`] });
            assert.equal(Number(rows[0]?.[0]), told.size);
          }),
          { numRuns: driver === 'postgresql' ? 25 : 5 },
        );
      });
    });
  },
  { sources: await sourcesWith(people, ...everyType) },
);
