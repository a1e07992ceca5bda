// Body keys that callers cannot write are ignored, or rejected if the caller requests strict handling.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onBothDrivers } from '../support/instance.ts';
import { exactRecord, objectText } from '../support/reading.ts';
import {
  definitions,
  fullBody,
  hasBody,
  make,
  operations,
  type Pair,
  pathOf,
  readOnly,
  requestOf,
  twoOrganizations,
  writable,
} from '../support/records.ts';
import { assertErrorShape } from '../support/scenario.ts';
import { writesOf } from '../support/writes.ts';

onBothDrivers('Unknown and read-only keys', (instance) => {
  let pair: Pair;
  const writes = writesOf(instance, () => pair);
  before(async () => {
    pair = await twoOrganizations(instance());
  });

  const claims = ['7', '"claimed"', 'null', '{}', '[1]', '9007199254740993', '"2001-01-01T00:00:00Z"'];
  const unknown = [
    ...[
      'password_hash',
      'organization',
      'account',
      'version',
      'ID',
      'Name',
      'id ',
      '',
      'queue',
      'queue_id_link',
    ],
    ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '$where', '$ne'],
    ...[
      'account.name',
      'account[name]',
      'name.en',
      'name[0]',
      'close_date_offset',
      'x'.repeat(5000),
      '🌍',
      '\\',
    ],
  ];

  for (const definition of definitions) {
    test(`${definition.name}: ignored in POST and PUT, each alone and all together`, async () => {
      const full = fullBody(definition, 'kept', pair.alphaIds);
      const plain = await make(instance(), pair.alpha.key, definition, full);
      const request = `PUT ${pathOf(definition, plain.id)}`;
      const names = [...readOnly(definition).map(({ name }) => name), ...unknown];
      const bodies = names.map((name, index) => [[name, claims[index % claims.length] ?? ''] as const]);
      bodies.push(...claims.map((claim) => names.map((name) => [name, claim] as const)));
      const entries = Object.entries(exactRecord(full)).length;
      for (const [index, extra] of bodies.entries()) {
        // Neither the first nor the last duplicate key may win.
        const first = `${objectText(extra).slice(0, -1)},${full.slice(1)}`;
        const last = `${full.slice(0, -1)},${objectText(extra).slice(1)}`;
        for (const body of extra.length > 1 ? [first, last] : [index % 2 === 0 ? first : last]) {
          assert.ok(Object.keys(exactRecord(body)).length > entries);
          const posted = await make(instance(), pair.alpha.key, definition, body);
          const put = await instance().call(request, { key: pair.alpha.key, body });
          assert.equal(put.status, 200, put.text);
          for (const { name, set } of definition.fields) {
            if (set === 'updated') continue;
            assert.deepEqual(exactRecord(put.text)[name], plain.record[name], `${name} after ${body}`);
            if (set === 'id' || set === 'created') continue;
            assert.deepEqual(posted.record[name], plain.record[name], `${name} after ${body}`);
          }
          assert.ok(BigInt(posted.id) > BigInt(plain.id), 'the server chooses the ID');
        }
      }
      assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    });

    test(`${definition.name}: Prefer: handling=strict returns 400 and lists both kinds`, async () => {
      const names = [...readOnly(definition).map(({ name }) => name), ...unknown];
      const body = objectText(names.map((name) => [name, 'null']));
      const readOnlyNames = new Set(readOnly(definition).map(({ name }) => name));
      await writes.nothing(() =>
        writes.refused(definition, { body, headers: { prefer: 'handling=strict' } }, ({ json }) => {
          assert.deepEqual(
            json.fields,
            names.map((name) => {
              const field = name.length > 100 ? `${name.slice(0, 100)}…` : name;
              const message = `${field} ${readOnlyNames.has(name) ? 'is read-only' : 'is not a field of this resource'}`;
              return { field, message };
            }),
          );
        }),
      );
    });

    test(`${definition.name}: Prefer: handling=strict reports invalid fields along with unknown ones`, async () => {
      const [field] = writable(definition);
      assert.ok(field);
      const call = { body: { [field.name]: {}, nonsense: 1 }, headers: { prefer: 'handling=strict' } };
      await writes.refused(definition, call, ({ json }) => {
        const named = (json.fields as { field: string }[]).map((one) => one.field);
        assert.deepEqual(named.sort(), [field.name, 'nonsense'].sort());
      });
    });

    test(`${definition.name}: Prefer: handling=strict accepts valid requests`, async () => {
      const call = {
        body: fullBody(definition, 'strict', pair.alphaIds),
        headers: { prefer: 'handling=strict' },
      };
      await writes.served(definition, call, ({ headers }) =>
        assert.equal(headers.get('preference-applied'), 'handling=strict'),
      );
    });

    for (const operation of operations) {
      test(`${definition.name}: Prefer: handling=strict rejects unknown parameters of ${operation.action}`, async () => {
        const { id } = await make(instance(), pair.alpha.key, definition);
        const request = requestOf(operation, definition, id);
        const body = hasBody(operation) ? { body: {} } : {};
        const strictly = { key: pair.alpha.key, headers: { prefer: 'handling=strict' }, ...body };
        const query = '?nonsense=1&__proto__=2&org=alpha&per_page=5';
        const rejection = await instance().call(request + query, strictly);
        const message = (field: string) => `${field} is not a parameter of this operation`;
        assert.deepEqual(
          [rejection.status, rejection.json.fields],
          [400, ['nonsense', '__proto__', 'per_page'].map((field) => ({ field, message: message(field) }))],
        );
        assertErrorShape(rejection);
        const response = await instance().call(`${request}?org=alpha`, strictly);
        assert.equal(response.status, operation.success, response.text);
      });
    }
  }

  for (const [prefer, strict] of [
    ['handling=strict', true],
    ['Handling=strict', true],
    ['handling="strict"', true],
    [' handling = strict ', true],
    ['handling=strict; wait=1', true],
    ['respond-async, handling=strict', true],
    ['handling=strict, wait=10', true],
    ['handling=lenient', false],
    ['handling=strictly', false],
    ['nothandling=strict', false],
    ['handling', false],
    ['strict', false],
    ['return=minimal', false],
    ['', false],
    // RFC 7240, section 2: only the first of duplicate preferences counts.
    ['handling=lenient, handling=strict', false],
  ] as const) {
    test(`Prefer: ${prefer} is ${strict ? 'strict' : 'not strict'}`, async () => {
      const [definition] = definitions;
      assert.ok(definition);
      const call = { body: { nonsense: 1 }, headers: { prefer } };
      const [post, put] = await writes.both(definition, call);
      assert.deepEqual([post.status, put.status], strict ? [400, 400] : [201, 200]);
    });
  }
});
