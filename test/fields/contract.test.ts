// Contract for every field type in the registry. New types are covered without a change here, because the
// expectations follow from their abilities (columns, order, equals, refers …) and their JSON schema.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { FieldType } from '../../engine/fields/type.ts';
import {
  beyond,
  computed,
  everyType,
  hasIds,
  kinds,
  referring,
  stored,
  textual,
  valuesOf,
  wrongValues,
} from '../support/every-type.ts';
import { type Organization, onBothDrivers } from '../support/instance.ts';
import { makePerson } from '../support/people.ts';
import {
  compareValues,
  type Exact,
  type ExactRecord,
  exact,
  exactRecord,
  numberText,
  objectText,
  walk,
} from '../support/reading.ts';
import { assertErrorShape, errorOf } from '../support/scenario.ts';

const list = '/api/v1/loose';
/**
 * Returns the names of the `loose` fields with this type: a nullable field, and a plain field if the type has
 * an empty value.
 */
const fieldsOf = (name: string, type: FieldType) =>
  type.empty === undefined ? [`n_${name}`] : [`n_${name}`, `p_${name}`];

onBothDrivers(
  'every field type',
  (instance) => {
    let main: Organization;
    /** ID of a record that references can point to. */
    let known: string;
    /** ID of a member. */
    let member: string;
    before(async () => {
      main = await instance().organization('main');
      member = (await makePerson(instance(), [{ organization: main }])).id;
      known = numberText(exactRecord((await send(`POST ${list}`, '{}')).text).id);
    });
    const send = (request: string, body?: string, key = main.key) =>
      instance().call(request, body === undefined ? { key } : { key, body });
    const values = (type: FieldType) => [
      ...valuesOf(type),
      ...(type.refers ? [known] : []),
      ...(type.users ? [member] : []),
    ];
    const pathOf = (record: ExactRecord) => `${list}/${numberText(record.id)}`;
    const all = async (query: string, key: string) => (await walk(instance(), list, query, key)).flat();

    /**
     * Sends POST, GET and PUT of the GET response. Each must return the same record, and `send` checks its
     * shape against the description.
     */
    async function roundTrip(body: string): Promise<ExactRecord> {
      const posted = await send(`POST ${list}`, body);
      assert.equal(posted.status, 201, posted.text);
      const path = pathOf(exactRecord(posted.text));
      const read = await send(`GET ${path}`);
      assert.equal(read.text, posted.text);
      const replaced = await send(`PUT ${path}`, read.text);
      assert.equal(replaced.status, 200, replaced.text);
      assert.equal(replaced.text, read.text, 'PUT of an unchanged record changes nothing');
      return exactRecord(read.text);
    }

    for (const [name, type] of stored) {
      test(`${name}: returns each value as it was written`, async () => {
        for (const value of values(type)) {
          const fields = value === 'null' ? [`n_${name}`] : fieldsOf(name, type);
          const record = await roundTrip(objectText(fields.map((field) => [field, value])));
          for (const field of fields) assert.deepEqual(record[field], exact(value), field);
        }
      });

      test(`${name}: stores null or the empty value for absent and null, also when PUT removes a value`, async () => {
        const fields = fieldsOf(name, type);
        for (const bare of ['{}', objectText(fields.map((field) => [field, 'null']))]) {
          const fresh = await roundTrip(bare);
          const value = values(type).at(-1) ?? 'null';
          const full = await roundTrip(objectText(fields.map((field) => [field, value])));
          const emptied = await send(`PUT ${pathOf(full)}`, bare);
          for (const record of [fresh, exactRecord(emptied.text)]) {
            const expected = [null, exact(JSON.stringify(type.empty ?? null))].slice(0, fields.length);
            assert.deepEqual(
              fields.map((field) => record[field]),
              expected,
            );
          }
        }
      });

      test(`${name}: rejects other kinds of JSON and writes nothing`, async () => {
        const value = values(type).at(-1) ?? 'null';
        const record = await roundTrip(objectText([[`n_${name}`, value]]));
        const before = await all('', main.key);
        for (const field of fieldsOf(name, type)) {
          for (const wrong of wrongValues(type)) {
            for (const request of [`POST ${list}`, `PUT ${pathOf(record)}`]) {
              const answer = await send(request, objectText([[field, wrong]]));
              assert.equal(answer.status, 400, `${wrong}: ${answer.text}`);
              const message = `${field} must be ${type.expected}`;
              assert.deepEqual(errorOf(answer), {
                error: message,
                code: 'invalid_input',
                fields: [{ field, message }],
              });
            }
          }
        }
        assert.deepEqual(await all('', main.key), before);
      });

      test(`${name}: sorts and filters lists by value`, async () => {
        const organization = await instance().organization(`sorting-${name.replaceAll('_', '-')}`);
        const { key } = organization;
        const add = async (value: string) => {
          const answer = await send(`POST ${list}`, objectText([[`n_${name}`, value]]), key);
          assert.equal(answer.status, 201, answer.text);
          return numberText(exactRecord(answer.text).id);
        };
        const first = await add('null');
        const { id: user } = await makePerson(instance(), [{ organization }]);
        const given = hasIds(type) ? [type.refers ? first : user, 'null'] : valuesOf(type);
        for (const value of [...given, ...given]) await add(value);
        await assertSorted(key, `n_${name}`, type);
        await assertFiltered(key, `n_${name}`, type, given);
      });
    }

    async function assertSorted(key: string, field: string, { json, order }: FieldType): Promise<void> {
      if (order === undefined) return assertUnsortable(key, field);
      const expected = (await all('', key)).toSorted(
        (a, b) =>
          compareValues(json, a[field] ?? null, b[field] ?? null) ||
          compareValues({}, a.id ?? null, b.id ?? null),
      );
      assert.deepEqual(await all(`sort=${field}&dir=asc`, key), expected);
      assert.deepEqual(await all(`sort=${field}&dir=desc`, key), expected.toReversed());
    }

    async function assertUnsortable(key: string, field: string): Promise<void> {
      const answer = await send(`GET ${list}?sort=${field}`, undefined, key);
      assert.equal(answer.status, 400);
      assertErrorShape(answer);
      assert.match(String(answer.json.error), /^sort must be one of id, organization_id, /);
      assert.doesNotMatch(answer.text, new RegExp(`\\b${field}\\b`));
    }

    async function assertFiltered(
      key: string,
      field: string,
      { json, equals, expected }: FieldType,
      given: readonly string[],
    ): Promise<void> {
      const records = await all('', key);
      if (equals === undefined) {
        assert.deepEqual(await all(`${field}=anything`, key), records, 'filter does not exist');
        return;
      }
      const query = (value: Exact) =>
        `${field}=${encodeURIComponent(typeof value === 'object' ? numberText(value) : String(value))}`;
      const having = (wanted: readonly Exact[]) =>
        records.filter(({ [field]: has = null }) =>
          wanted.some((value) => has !== null && compareValues(json, has, value) === 0),
        );
      const filterable = given.map(exact).filter((value) => value !== null && value !== '');
      assert.notEqual(filterable.length, 0);
      for (const value of filterable) {
        assert.notEqual(having([value]).length, 0);
        assert.deepEqual(await all(query(value), key), having([value]), query(value));
      }
      const some = filterable.slice(0, 2);
      assert.deepEqual(
        await all([...some, ...some].map(query).join('&'), key),
        having(some),
        'any of the values',
      );
      assert.deepEqual(await all(`${field}=`, key), records, 'empty values are ignored');

      const anyText = json.type === 'string' && json.format === undefined;
      const nonsense = anyText
        ? ['%00']
        : ['%00', 'nonsense', '%20', '1%202', "'%20or%201=1--", '[]', 'null'];
      for (const text of [...nonsense, ...(beyond[String(json.format)] ?? []).map(encodeURIComponent)]) {
        const answer = await send(`GET ${list}?${field}=${text}`, undefined, key);
        assert.equal(answer.status, 400, `${text}: ${answer.text}`);
        assertErrorShape(answer);
        assert.equal(answer.json.error, `${field} must be ${expected}`);
      }
    }

    for (const [name, type] of stored.filter(([, each]) => !hasIds(each))) {
      test(`${name}: rejects absent and null if required`, async () => {
        const field = `r_${name}`;
        const others = stored
          .filter(([other, each]) => other !== name && !hasIds(each))
          .map(([other, each]) => [`r_${other}`, valuesOf(each)[0] ?? ''] as const);
        const accepted = await send(
          'POST /api/v1/tight',
          objectText([...others, [field, valuesOf(type)[0] ?? '']]),
        );
        assert.equal(accepted.status, 201, accepted.text);
        for (const [body, message] of [
          [objectText(others), `${field} is required`],
          [objectText([...others, [field, 'null']]), `${field} must be ${type.expected}`],
        ] as const) {
          const answer = await send('POST /api/v1/tight', body);
          assert.equal(answer.status, 400, answer.text);
          assert.deepEqual(answer.json.fields, [{ field, message }]);
        }
      });
    }

    for (const [name, type] of stored.filter(([, { json }]) => json.type === 'number')) {
      test(`${name}: keeps the value of every number format, also when written back`, async () => {
        for (const text of ['1e3', '1E+2', '1e-7', '-0', '0.10', '123e100', '-1e150', '1e300', '1e-300']) {
          const { [`n_${name}`]: value = null } = await roundTrip(objectText([[`n_${name}`, text]]));
          assert.equal(
            compareValues(type.json, value, exact(text)),
            0,
            `${text} became ${numberText(value)}`,
          );
        }
      });
    }

    for (const [name, type] of computed) {
      const field = `c_${name}`;

      test(`${name}: is returned with the record, but cannot be written, sorted or filtered by`, async () => {
        const empty = exact(JSON.stringify(type.examples[0]));
        assert.deepEqual((await roundTrip('{}'))[field], empty);
        for (const value of Object.values(kinds)) {
          assert.deepEqual((await roundTrip(objectText([[field, value]])))[field], empty);
        }
        await assertUnsortable(main.key, field);
        assert.deepEqual(await all(`${field}=x`, main.key), await all('', main.key));
      });

      test(`${name}: shows the text of a referenced record`, async () => {
        const shown = await roundTrip(objectText([[`n_${textual}`, '"Shown, Grüße"']]));
        const link = [`n_${referring}`, numberText(shown.id)] as const;
        assert.equal((await roundTrip(objectText([link])))[field], 'Shown, Grüße');
      });

      test(`${name}: is a string even if the referenced text is null`, async () => {
        const record = await roundTrip('{}');
        const link = objectText([[`n_${referring}`, numberText(record.id)]]);
        assert.equal((await roundTrip(link))[field], '', 'with a reference to another record');
        const itself = await send(`PUT ${pathOf(record)}`, link);
        assert.equal(exactRecord(itself.text)[field], '', 'with a reference to the record itself');
      });
    }

    test('reports all invalid fields together', async () => {
      const wrong = stored.map(([name, type]) => [`n_${name}`, wrongValues(type)[0] ?? ''] as const);
      const answer = await send(`POST ${list}`, objectText(wrong));
      assert.equal(answer.status, 400);
      const fields = stored.map(([name, { expected }]) => ({
        field: `n_${name}`,
        message: `n_${name} must be ${expected}`,
      }));
      assert.deepEqual(errorOf(answer), {
        error: fields.map(({ message }) => message).join('; '),
        code: 'invalid_input',
        fields,
      });
    });
  },
  { sources: everyType },
);
