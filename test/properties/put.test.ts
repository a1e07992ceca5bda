// PUT returns the same result as POST with the same body, with ID, organization, owner, created-by,
// created_at and every other read-only field preserved. PUT rejects every body that POST rejects.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import type { Resource } from '../../engine/compile/compile.ts';
import { checkSources } from '../../engine/definition/check-sources.ts';
import type { Field } from '../../engine/fields/field.ts';
import { assertUntil, bodyText, type KnownIds } from '../support/arbitraries.ts';
import { everyType } from '../support/every-type.ts';
import { type Answer, onBothDrivers } from '../support/instance.ts';
import {
  compareValues,
  type ExactRecord,
  exactRecord,
  instant,
  numberText,
  objectText,
  rowHashes,
} from '../support/reading.ts';
import { errorOf } from '../support/scenario.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(...everyType);
const definitions = checkSources(sources);

/** Returns whether the server sets the field on every write. */
const renewed = (field: Field) => field.set === 'editor' || field.set === 'updated';
const isStored = (field: Field) => field.type.columns !== undefined;

onBothDrivers(
  'PUT',
  (instance) => {
    let keys: { user: string; nobody: string };
    let organization: string;
    /** IDs of the organization's own records and one foreign record, keyed by resource. */
    const own: Record<string, string[]> = {};
    const foreign: Record<string, string> = {};

    const send = (request: string, key: string, body?: string) =>
      instance().call(request, body === undefined ? { key } : { key, body });
    const required = ({ definition }: Resource) =>
      objectText(
        definition.fields
          .filter((field) => field.required)
          .map((field) => [field.name, JSON.stringify(field.type.examples[0])]),
      );
    const make = async (resource: Resource, key: string) => {
      const answer = await send(`POST /api/v1/${resource.name}`, key, required(resource));
      assert.equal(answer.status, 201, answer.text);
      return numberText(exactRecord(answer.text).id);
    };
    before(async () => {
      const alpha = await instance().organization('alpha');
      const beta = await instance().organization('beta');
      organization = alpha.id;
      keys = { user: alpha.key, nobody: (await alpha.makeKey()).key };
      for (const resource of instance().resources) {
        own[resource.name] = [await make(resource, alpha.key), await make(resource, alpha.key)];
        foreign[resource.name] = await make(resource, beta.key);
      }
    });

    /** Sets read-only fields to values that no request can set, so that losing them would be noticed. */
    async function markReadOnly({ name, definition }: Resource, id: string): Promise<void> {
      const marked = definition.fields.filter(
        (field) => field.readOnly && isStored(field) && field.set === undefined,
      );
      for (const { name: column, type } of marked) {
        await instance().database.run({
          name: `mark ${name} ${column}`,
          text: `update "${name}" set "${column}" = $2::text::${type.columns?.({ readOnly: true })[0]?.type} where id = $1::bigint`,
          values: [id, String(type.examples[0])],
        });
      }
    }

    function assertReplaced(
      { definition }: Resource,
      old: ExactRecord,
      posted: ExactRecord,
      now: ExactRecord,
    ): void {
      assert.deepEqual(
        Object.keys(now),
        definition.fields.map(({ name }) => name),
      );
      for (const field of definition.fields) {
        const { name, readOnly } = field;
        if (field.set === 'updated') {
          assert.ok(instant(String(now[name])) >= instant(String(old[name])), `${name} does not go back`);
          assert.ok(
            instant(String(now[name])) >= instant(String(posted[name])),
            `${name} is the time of the PUT`,
          );
        } else if (readOnly && isStored(field) && !renewed(field)) {
          assert.deepEqual(now[name], old[name], `${name} is preserved`);
        } else {
          assert.deepEqual(now[name], posted[name], `${name} is the same as after POST`);
        }
      }
    }

    /** Asserts that the stored record has the sent values, by exact arithmetic and to the microsecond. */
    function assertKept({ definition }: Resource, body: string, record: ExactRecord): void {
      const sent = exactRecord(body);
      for (const { name, type } of definition.fields.filter(({ readOnly }) => !readOnly)) {
        const given = Object.hasOwn(sent, name) ? (sent[name] ?? null) : null;
        if (given === null) continue;
        if (type.json.format === 'date-time') {
          const text = String(given)
            .toUpperCase()
            .replace(/(\.\d{6})\d+/, '$1');
          assert.equal(instant(String(record[name])), instant(text), name);
          assert.ok(String(record[name]).endsWith(/(Z|[+-]\d\d:\d\d)$/.exec(text)?.[0] ?? 'no offset'));
        } else {
          assert.equal(compareValues(type.json, given, record[name] ?? null), 0, `${name} of ${body}`);
        }
      }
    }

    function assertRefused(post: Answer, put: Answer): void {
      assert.equal(post.status, 400, post.text);
      assert.deepEqual([put.status, errorOf(put)], [post.status, errorOf(post)]);
    }

    for (const { name, fields } of definitions) {
      test(`${name}: PUT equals POST and preserves read-only fields; a rejected PUT changes nothing`, async (context) => {
        const resource = instance().resources.find((one) => one.name === name);
        assert.ok(resource);
        const ids: KnownIds = own;
        const wrong = fields
          .filter((field) => field.to !== undefined)
          .flatMap((field) =>
            ['999999999', '-1', foreign[field.to ?? ''] ?? ''].map((id) => [field.name, id] as const),
          );
        const body = bodyText(resource, ids, wrong);
        const list = `/api/v1/${name}`;
        let accepted = 0;
        let refused = 0;
        const property = fc.asyncProperty(
          body,
          body,
          fc.constantFrom('user', 'nobody'),
          async (first, second, writer) => {
            const key = keys[writer as keyof typeof keys];
            const made = await send(`POST ${list}`, keys.user, first);
            const id =
              made.status === 201 ? numberText(exactRecord(made.text).id) : await make(resource, keys.user);
            await markReadOnly(resource, id);
            const one = `${list}/${id}`;
            const old = await send(`GET ${one}`, key);
            assert.equal(old.status, 200, old.text);
            const before = await rowHashes(instance(), organization);
            const posted = await send(`POST ${list}`, key, second);
            const put = await send(`PUT ${one}`, key, second);
            if (posted.status !== 201) {
              refused++;
              assertRefused(posted, put);
              assert.deepEqual(await rowHashes(instance(), organization), before, 'nothing is written');
              return;
            }
            accepted++;
            assert.equal(put.status, 200, put.text);
            assert.equal(
              (await send(`GET ${one}`, key)).text,
              put.text,
              'the response equals the stored record',
            );
            assertKept(resource, second, exactRecord(put.text));
            assertReplaced(resource, exactRecord(old.text), exactRecord(posted.text), exactRecord(put.text));
          },
        );
        const isEnough = () => accepted >= 10 && refused >= 5;
        await assertUntil(property, 50, isEnough);
        context.diagnostic(`${accepted} accepted, ${refused} refused`);
        assert.ok(isEnough(), 'both outcomes occurred');
      });
    }
  },
  { sources },
);
