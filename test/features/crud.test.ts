// Create, read, replace, delete: the response of each operation and the resulting record, field by field.
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import type { Field } from '../../engine/fields/field.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import {
  dataOf,
  type ExactRecord,
  exact,
  exactRecord,
  instant,
  numberText,
  objectText,
} from '../support/reading.ts';
import {
  definitions,
  fullBody,
  type Ids,
  kindOf,
  make,
  oneOfEach,
  pathOf,
  sample,
  untouched,
  writable,
} from '../support/records.ts';

/** Defaults in the contract other than the empty values. */
const defaults: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  leads: { status: 'Open - Not Contacted' },
  opportunities: { stage: 'Prospecting' },
  cases: { status: 'New', priority: 'Medium' },
};

/** Returns the value of a field that was never set, derived from its JSON type alone rather than from the engine. */
function emptyValue({ name }: ResourceDefinition, field: Field) {
  if (field.nullable) return null;
  if (field.type.json.type !== 'string') return { number: '0' };
  return defaults[name]?.[field.name] ?? '';
}

const serverTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$/;

onBothDrivers('crud', (instance) => {
  let alpha: Organization;
  let ids: Ids;
  /** A second user's key. */
  let other: { key: string; user: string };
  before(async () => {
    alpha = await instance().organization('alpha');
    ids = await oneOfEach(instance(), alpha.key, 'alpha');
    // Users are not bound to an organization, so a user of another organization can create keys here.
    const { user } = await instance().organization('beta');
    other = { user, key: (await alpha.makeKey({ user })).key };
  });

  const id = (text: string) => ({ number: text });
  const read = async (definition: ResourceDefinition, record: string) => {
    const answer = await instance().call(`GET ${pathOf(definition, record)}`, { key: alpha.key });
    assert.equal(answer.status, 200, answer.text);
    return exactRecord(answer.text);
  };
  const replace = async (definition: ResourceDefinition, record: string, body: unknown, key = alpha.key) => {
    const answer = await instance().call(`PUT ${pathOf(definition, record)}`, { key, body });
    assert.equal(answer.status, 200, answer.text);
    return exactRecord(answer.text);
  };

  /** Asserts that a record is the result of an empty body. */
  function assertEmpty(definition: ResourceDefinition, record: ExactRecord, user: string | null): void {
    assert.deepEqual(
      Object.keys(record),
      definition.fields.map(({ name }) => name),
      'exactly the declared fields, in order',
    );
    for (const field of definition.fields) {
      const value = record[field.name] ?? null;
      if (field.set === 'id') assert.match(numberText(value), /^[1-9]\d*$/);
      else if (field.set === 'organization') assert.deepEqual(value, id(alpha.id));
      else if (field.set === 'created' || field.set === 'updated') assert.match(String(value), serverTime);
      else if (field.set !== undefined) assert.deepEqual(value, user === null ? null : id(user), field.name);
      else assert.deepEqual(value, emptyValue(definition, field), field.name);
    }
  }

  describe('Required on create: nothing by default', () => {
    for (const definition of definitions) {
      test(`${definition.name}: POST {} creates a record`, async () => {
        const { record, answer, id: recordId } = await make(instance(), alpha.key, definition, '{}');
        assertEmpty(definition, record, alpha.user);
        const times = definition.fields.filter(({ set }) => set === 'created' || set === 'updated');
        assert.equal(new Set(times.map(({ name }) => record[name])).size, 1, 'both timestamps are equal');
        assert.equal(answer.headers.get('location'), pathOf(definition, recordId));
        assert.deepEqual(await read(definition, recordId), record);
      });
    }
  });

  describe('Absent, or null in a field not typed "or null"', () => {
    for (const definition of definitions) {
      test(`${definition.name}: null is the same as absent, for each field and for all`, async () => {
        const fields = writable(definition);
        for (const names of [...fields.map(({ name }) => [name]), fields.map(({ name }) => name)]) {
          const body = objectText(names.map((name) => [name, 'null']));
          assertEmpty(definition, (await make(instance(), alpha.key, definition, body)).record, alpha.user);
        }
      });

      test(`${definition.name}: plain strings and numbers are never null in responses`, async () => {
        const { record } = await make(instance(), alpha.key, definition);
        for (const field of definition.fields.filter(({ nullable }) => !nullable)) {
          assert.notEqual(record[field.name], null, field.name);
        }
      });
    }
  });

  test('only the documented fields have shipped defaults', () => {
    const actual = definitions.flatMap(({ name, fields }) =>
      fields
        .filter((field) => field.default !== null && field.default !== '' && field.default !== 0)
        .map((field) => [name, field.name, field.default]),
    );
    const listed = Object.entries(defaults).flatMap(([name, fields]) =>
      Object.entries(fields).map(([field, value]) => [name, field, value]),
    );
    assert.deepEqual(actual.sort(), listed.sort());
  });

  describe('a record with every field', () => {
    for (const definition of definitions) {
      test(`${definition.name}: POST, GET, list and PUT return the same record`, async () => {
        const body = fullBody(definition, 'full', ids);
        const { record, id: recordId, answer } = await make(instance(), alpha.key, definition, body);
        const input = exactRecord(body);
        for (const field of writable(definition)) {
          assert.deepEqual(record[field.name], input[field.name], field.name);
        }
        const response = await instance().call(`GET ${pathOf(definition, recordId)}`, { key: alpha.key });
        assert.equal(response.text, answer.text, 'byte for byte');
        const list = await instance().call(`GET ${pathOf(definition)}?dir=desc&sort=id`, { key: alpha.key });
        assert.ok(list.text.includes(answer.text), 'byte for byte');
        const renewed = definition.fields.filter(({ set }) => set === 'updated').map(({ name }) => name);
        const put = await replace(definition, recordId, body);
        for (const { name } of definition.fields) {
          if (!renewed.includes(name)) assert.deepEqual(put[name], record[name], name);
        }
      });

      test(`${definition.name}: creates are not idempotent`, async () => {
        const body = fullBody(definition, 'twice', ids);
        const first = await make(instance(), alpha.key, definition, body);
        const second = await make(instance(), alpha.key, definition, body);
        assert.ok(BigInt(second.id) > BigInt(first.id));
      });
    }
  });

  describe('PUT has the same result as POST with the same body', () => {
    for (const definition of definitions) {
      test(`${definition.name}: {} resets every writable field to its default`, async () => {
        const { id: recordId } = await make(
          instance(),
          alpha.key,
          definition,
          fullBody(definition, 'old', ids),
        );
        assertEmpty(definition, await replace(definition, recordId, '{}'), alpha.user);
      });

      test(`${definition.name}: a body with one field resets all others`, async () => {
        const full = fullBody(definition, 'old', ids);
        const { id: recordId } = await make(instance(), alpha.key, definition, full);
        for (const field of writable(definition)) {
          const body = objectText([[field.name, sample(field, 'new', ids)]]);
          const record = await replace(definition, recordId, body);
          for (const other of writable(definition)) {
            const expected =
              other === field ? exact(sample(field, 'new', ids)) : emptyValue(definition, other);
            assert.deepEqual(record[other.name], expected, `${other.name} after ${body}`);
          }
          await replace(definition, recordId, full);
        }
      });

      test(`${definition.name}: keeps read-only fields, sets updated_at and last_modified_by_id`, async () => {
        const { id: recordId } = await make(
          instance(),
          alpha.key,
          definition,
          fullBody(definition, 'old', ids),
        );
        for (const field of untouched(definition)) {
          const value = kindOf(field) === 'timestamp' ? '2026-05-05T05:05:05Z' : `kept ${field.name}`;
          const text = `update "${definition.name}" set "${field.name}" = $2::text::${field.type.columns?.(field)[0]?.type} where id = $1::bigint`;
          await instance().database.run({ name: `set ${field.name}`, text, values: [recordId, value] });
        }
        const old = await read(definition, recordId);
        for (const field of untouched(definition)) {
          assert.notDeepEqual(old[field.name], emptyValue(definition, field), `${field.name} has a value`);
        }
        for (const body of ['{}', fullBody(definition, 'new', ids)]) {
          const now = await replace(definition, recordId, body, other.key);
          for (const { name, set, readOnly, through } of definition.fields) {
            if (!readOnly || through !== undefined) continue;
            if (set === 'editor') assert.deepEqual(now[name], id(other.user), name);
            else if (set === 'updated')
              assert.ok(instant(String(now[name])) > instant(String(old[name])), name);
            else assert.deepEqual(now[name], old[name], name);
          }
          assert.deepEqual(await read(definition, recordId), now, 'the response matches the stored record');
        }
      });
    }
  });

  describe('DELETE', () => {
    for (const definition of definitions) {
      test(`${definition.name}: returns 200 {"ok":true} instead of 204, and the record is missing afterwards`, async () => {
        const { id: recordId } = await make(instance(), alpha.key, definition);
        const request = pathOf(definition, recordId);
        const answer = await instance().call(`DELETE ${request}`, { key: alpha.key });
        assert.deepEqual([answer.status, answer.text], [200, '{"ok":true}']);
        for (const method of ['GET', 'PUT', 'DELETE']) {
          const call = method === 'PUT' ? { key: alpha.key, body: {} } : { key: alpha.key };
          assert.equal((await instance().call(`${method} ${request}`, call)).status, 404, method);
        }
        const list = await instance().call(`GET ${pathOf(definition)}?sort=id&dir=desc`, { key: alpha.key });
        assert.ok(!dataOf(list).some((record) => numberText(record.id) === recordId));
      });
    }
  });

  describe('DELETE and GET with Content-Type: application/json and no body', () => {
    for (const definition of definitions) {
      for (const headers of [
        { 'content-type': 'application/json' },
        { 'content-type': 'application/json; charset=utf-8' },
      ]) {
        test(`${definition.name}: accepts ${headers['content-type']}`, async () => {
          const { id: recordId, answer } = await make(instance(), alpha.key, definition);
          const call = { key: alpha.key, headers };
          const list = await instance().call(`GET ${pathOf(definition)}`, call);
          assert.equal(list.status, 200);
          const response = await instance().call(`GET ${pathOf(definition, recordId)}`, call);
          assert.deepEqual([response.status, response.text], [200, answer.text]);
          const deleted = await instance().call(`DELETE ${pathOf(definition, recordId)}`, call);
          assert.deepEqual([deleted.status, deleted.text], [200, '{"ok":true}']);
        });
      }
    }
  });

  describe('Joined names', () => {
    const joined = definitions.flatMap((definition) =>
      definition.fields
        .filter((field) => field.through !== undefined)
        .map((field) => {
          const link = definition.fields.find(({ name }) => name === field.through);
          const target = definitions.find(({ name }) => name === link?.to);
          assert.ok(link && target);
          return { definition, field, link, target, show: field.show ?? [] };
        }),
    );
    test('the contract has two', () => {
      assert.deepEqual(
        joined.map(({ definition, field, show }) => [definition.name, field.name, ...show]),
        [
          ['cases', 'account_name', 'name'],
          ['cases', 'contact_name', 'first_name', 'last_name'],
        ],
      );
    });

    for (const { definition, field, link, target, show } of joined) {
      const part = (word: string) => show.map((name) => [name, JSON.stringify(`${word} ${name}`)] as const);
      const values: [string, (readonly [string, string])[], string][] = [
        ['every part', part('Ada'), show.map((name) => `Ada ${name}`).join(' ')],
        ['no part', [], ''],
        ...show.map((name): [string, (readonly [string, string])[], string] => [
          `only ${name}`,
          [[name, '"Lovelace"']],
          'Lovelace',
        ]),
        ['markup and quotes', show.map((name) => [name, '"<b>\\"é🌍"']), show.map(() => '<b>"é🌍').join(' ')],
      ];
      for (const [name, body, expected] of values) {
        test(`${field.name}, ${name}: returns "${expected}" in POST, GET, list and PUT`, async () => {
          const joinedRecord = await make(instance(), alpha.key, target, objectText(body));
          const link_to = objectText([[link.name, joinedRecord.id]]);
          const { record, id: recordId } = await make(instance(), alpha.key, definition, link_to);
          const list = await instance().call(`GET ${pathOf(definition)}`, { key: alpha.key });
          const listed = dataOf(list).find((one) => numberText(one.id) === recordId);
          const put = await replace(definition, recordId, link_to);
          for (const one of [record, await read(definition, recordId), listed, put]) {
            assert.equal(one?.[field.name], expected);
          }
          const unlinked = await replace(definition, recordId, '{}');
          assert.equal(unlinked[field.name], '', 'no reference');
        });
      }

      test(`${field.name} follows a change to the joined record`, async () => {
        const joinedRecord = await make(instance(), alpha.key, target, objectText(part('Old')));
        const { id: recordId } = await make(instance(), alpha.key, definition, {
          [link.name]: Number(joinedRecord.id),
        });
        await replace(target, joinedRecord.id, objectText(part('New')));
        const expected = show.map((name) => `New ${name}`).join(' ');
        assert.equal((await read(definition, recordId))[field.name], expected);
      });
    }
  });

  describe('a key without a user', () => {
    for (const definition of definitions) {
      test(`${definition.name}: a new record has no owner or creator, and PUT keeps the creator`, async () => {
        const { key } = await alpha.makeKey();
        assertEmpty(definition, (await make(instance(), key, definition)).record, null);
        const { id: recordId } = await make(instance(), alpha.key, definition);
        const now = await replace(definition, recordId, {}, key);
        for (const { name, set } of definition.fields) {
          if (set === 'creator') assert.deepEqual(now[name], id(alpha.user), name);
          if (set === 'editor') assert.equal(now[name], null, name);
        }
      });
    }
  });
});
