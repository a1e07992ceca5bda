// PATCH returns the same result as a PUT with the record merged with the patch, and is rejected if that PUT
// is rejected.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { assertUntil, bodyText, type KnownIds } from '../support/arbitraries.ts';
import { everyType } from '../support/every-type.ts';
import { onBothDrivers } from '../support/instance.ts';
import { exactRecord, numberText, objectText, rowHashes } from '../support/reading.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(...everyType);

onBothDrivers(
  'PATCH',
  (instance) => {
    let key: string;
    let organization: string;
    const own: Record<string, string[]> = {};
    const required = (name: string) => {
      const fields = checkSources(sources).find((each) => each.name === name)?.fields ?? [];
      return objectText(
        fields
          .filter((field) => field.required)
          .map(({ name, type }) => [name, JSON.stringify(type.examples[0])]),
      );
    };
    const send = (request: string, body?: string) =>
      instance().call(request, body === undefined ? { key } : { key, body });
    const make = async (name: string, body: string) => {
      const answer = await send(`POST /api/v1/${name}`, body);
      return answer.status === 201 ? numberText(exactRecord(answer.text).id) : undefined;
    };
    before(async () => {
      const alpha = await instance().organization('alpha');
      ({ key } = alpha);
      organization = alpha.id;
      for (const { name } of instance().resources) own[name] = [String(await make(name, required(name)))];
    });

    for (const { name, fields } of checkSources(sources)) {
      test(`${name}: PATCH equals PUT of the merged record; a rejected PATCH changes nothing`, async (context) => {
        const resource = instance().resources.find((one) => one.name === name);
        assert.ok(resource);
        const ids: KnownIds = own;
        const wrong = fields.flatMap((field) =>
          field.to === undefined ? [] : [[field.name, '999999999'] as const],
        );
        const body = bodyText(resource, ids, wrong);
        // Include bodies without required fields.
        const few = fc
          .tuple(body, fc.array(fc.constantFrom(...fields.map((field) => field.name))))
          .map(([text, left]) =>
            objectText(
              Object.entries(JSON.parse(text) as object)
                .filter(([field]) => !left.includes(field))
                .map(([field, value]) => [field, JSON.stringify(value)]),
            ),
          );
        let accepted = 0;
        let refused = 0;
        const property = fc.asyncProperty(body, fc.oneof(body, few), async (first, patch) => {
          const begin = async () => (await make(name, first)) ?? (await make(name, required(name)));
          const [one, twin] = [`/api/v1/${name}/${await begin()}`, `/api/v1/${name}/${await begin()}`];
          const old = (await send(`GET ${one}`)).text;
          // The last of two equal keys counts.
          const merged = patch === '{}' ? old : `${old.slice(0, -1)},${patch.slice(1)}`;
          const hashes = await rowHashes(instance(), organization);
          const patched = await send(`PATCH ${one}`, patch);
          if (patched.status !== 200) {
            refused++;
            assert.equal(patched.status, 400);
            assertErrorShape(patched);
            assert.deepEqual(await rowHashes(instance(), organization), hashes, 'nothing is written');
          }
          const put = await send(`PUT ${twin}`, merged);
          assert.equal(patched.status, put.status, `${patched.text} ${put.text}`);
          if (put.status !== 200) {
            assert.deepEqual(patched.json.fields, put.json.fields);
            return;
          }
          accepted++;
          assert.equal(
            (await send(`GET ${one}`)).text,
            patched.text,
            'the response equals the stored record',
          );
          const [left, right] = [exactRecord(patched.text), exactRecord(put.text)];
          for (const field of fields.filter(({ set }) => set === undefined || set === 'editor')) {
            assert.deepEqual(left[field.name], right[field.name], field.name);
          }
        });
        const isEnough = () => accepted >= 5 && refused >= 5;
        await assertUntil(property, 40, isEnough);
        context.diagnostic(`${accepted} accepted, ${refused} refused`);
        assert.ok(isEnough(), 'both outcomes occurred');
      });
    }
  },
  { sources },
);
