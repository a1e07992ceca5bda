// Reading pages until one has fewer than 20 records returns each record exactly once, in the requested
// order, however many values are equal and however long their common prefix is.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc, { type Arbitrary } from 'fast-check';
import type { Resource } from '../../engine/compile/compile.ts';
import type { ResourceDefinition } from '../../engine/definition/definition.ts';
import type { Field } from '../../engine/fields/index.ts';
import { pageSize } from '../../engine/query/page.ts';
import { everyType, valuesOf } from '../support/every-type.ts';
import { type Instance, onBothDrivers } from '../support/instance.ts';
import {
  compareValues,
  type Exact,
  type ExactRecord,
  exact,
  exactRecord,
  matches,
  numberText,
  objectText,
  walk,
} from '../support/reading.ts';
import { sourcesWith } from '../support/sources.ts';

/**
 * Strings with the same first 100 characters, which an index cannot distinguish, with one to four bytes per
 * character.
 */
const long = ['p', 'é', '世', '🌍'].flatMap((character) =>
  ['', 'a', 'b', 'B', character].flatMap((end) =>
    [99, 100, 101].map((length) => character.repeat(length) + end),
  ),
);
const texts = ['', 'a', 'A', 'b', 'ab', 'a b', 'Ä', 'ä', '!', '~', ...long];

/** Generates few distinct values, so that many are equal. */
function tiedValue({ type, to }: Field): Arbitrary<string> {
  if (to !== undefined) return fc.constant('null');
  if (type.text === undefined) return fc.constantFrom('null', ...valuesOf(type));
  return fc
    .oneof(fc.constantFrom(...texts.slice(0, 10)), fc.constantFrom(...long))
    .map((text) => JSON.stringify(text));
}

const rowsOf = ({ definition }: Resource) =>
  fc.record(
    Object.fromEntries(
      definition.fields.filter((field) => !field.readOnly).map((field) => [field.name, tiedValue(field)]),
    ),
    { requiredKeys: [] },
  );

/** Returns the values for `?sort=`, or any field if the parameter is ignored. */
const choicesOf = ({ sort }: ResourceDefinition) =>
  sort.choices.size === 0 ? ['id'] : [...sort.choices.keys()];

/** A list's parameters. */
interface Ask {
  readonly sort: string | undefined;
  readonly dir: 'asc' | 'desc' | undefined;
  /** Sort keys after `sort`, without `dir`. */
  readonly thenBy: readonly { readonly sort: string; readonly dir: 'asc' | 'desc' }[];
  /** Filters whose values come from existing records at these positions. */
  readonly filters: readonly { readonly field: string; readonly places: readonly number[] }[];
}

const asks = ({ definition }: Resource): Arbitrary<Ask> =>
  fc.record({
    sort: fc.option(fc.constantFrom(...choicesOf(definition)), {
      nil: undefined,
    }),
    dir: fc.constantFrom('asc', 'desc', undefined),
    thenBy: fc.oneof(
      fc.constant([]),
      fc.uniqueArray(
        fc.record({
          sort: fc.constantFrom(...choicesOf(definition)),
          dir: fc.constantFrom('asc' as const, 'desc' as const),
        }),
        { maxLength: 3, selector: ({ sort }) => sort },
      ),
    ),
    filters: fc.array(
      fc.record({
        field: fc.constantFrom(
          'none',
          ...definition.filters.flatMap(({ field, operators }) =>
            operators.includes('eq') ? field.name : [],
          ),
        ),
        places: fc.array(fc.nat(), { minLength: 1, maxLength: 4 }),
      }),
      { maxLength: 2 },
    ),
  });

/** Returns the records that the list must contain, in order, and its query string. */
function expected({ definition }: Resource, all: readonly ExactRecord[], ask: Ask) {
  const selectable = definition.sort.choices.size > 0;
  const fieldOf = (sort: string | undefined) =>
    definition.fields.find(({ name }) => selectable && name === sort);
  const by = fieldOf(ask.sort) ?? definition.sort.field;
  const more = ask.sort === undefined ? [] : ask.thenBy.filter(({ sort }) => sort !== ask.sort);
  const own =
    (selectable ? ask.dir : undefined) ??
    (by === definition.sort.field && (more.length === 0 || !selectable) ? definition.sort.direction : 'asc');
  const query = new URLSearchParams();
  if (more.length > 0) {
    const keys = [{ sort: ask.sort, dir: own }, ...more];
    query.set('sort', keys.map(({ sort, dir }) => `${dir === 'desc' ? '-' : ''}${sort}`).join());
  } else {
    if (ask.sort !== undefined) query.set('sort', ask.sort);
    if (ask.dir !== undefined) query.set('dir', ask.dir);
  }
  const order = [
    { by, direction: own },
    ...(selectable ? more.map(({ sort, dir }) => ({ by: fieldOf(sort) ?? by, direction: dir })) : []),
  ];
  const wanted = new Map<Field, Exact[]>();
  for (const { field: name, places } of ask.filters) {
    const field = definition.filters.find((one) => one.field.name === name)?.field;
    for (const place of places) {
      const value = all[place % Math.max(all.length, 1)]?.[name] ?? null;
      // Null cannot be used in a filter, and an empty value is ignored.
      if (field === undefined || value === null || value === '') continue;
      wanted.set(field, [...(wanted.get(field) ?? []), value]);
      query.append(name, typeof value === 'object' ? numberText(value) : String(value));
    }
  }
  const records = all
    .filter((record) =>
      [...wanted].every(([field, values]) =>
        values.some((value) => matches(field, record[field.name] ?? null, value)),
      ),
    )
    .toSorted((a, b) => {
      const compared = order.map(({ by: { type, name }, direction }) => {
        const result = compareValues(type.json, a[name] ?? null, b[name] ?? null);
        return direction === 'asc' ? result : -result;
      });
      const byId = compareValues({}, a.id ?? null, b.id ?? null);
      return compared.find((result) => result !== 0) ?? (order.at(-1)?.direction === 'desc' ? -byId : byId);
    });
  return { query: String(query), records };
}

/**
 * Stores records and assigns the same timestamps to many of them.
 * @returns the records by ID, as the service returns them
 */
async function store(
  instance: Instance,
  { name, definition }: Resource,
  slug: string,
  rows: readonly Readonly<Record<string, string | undefined>>[],
): Promise<{ key: string; all: readonly ExactRecord[] }> {
  const { key, id } = await instance.organization(slug);
  const path = `/api/v1/${name}`;
  const posted: string[] = [];
  for (let start = 0; start < rows.length; start += 10) {
    const answers = await Promise.all(
      rows.slice(start, start + 10).map((row) =>
        instance.call(`POST ${path}`, {
          key,
          body: objectText(Object.entries(row).map(([field, value]) => [field, value ?? 'null'])),
        }),
      ),
    );
    for (const answer of answers) {
      assert.equal(answer.status, 201, answer.text);
      posted.push(numberText(exactRecord(answer.text).id));
    }
  }
  for (const { name: column } of definition.fields.filter(({ set }) => set === 'created')) {
    await instance.database.run({
      name: `tie ${name} ${column}`,
      text: `update "${name}" set "${column}" = timestamptz '2026-01-01' + id % 3 * interval '1 day' where organization_id = $1::bigint`,
      values: [id],
    });
  }
  const records = await Promise.all(posted.map((one) => instance.call(`GET ${path}/${one}`, { key })));
  return { key, all: records.map(({ text }) => exact(text) as ExactRecord) };
}

onBothDrivers(
  'walking pages',
  (instance) => {
    let organizations = 0;

    for (const name of ['leads', 'cases', 'contacts', 'loose']) {
      test(`${name}: returns each record exactly once, in order`, async () => {
        const resource = instance().resources.find((one) => one.name === name);
        assert.ok(resource);
        const size = fc.constantFrom(0, 19, 20, 21, 100, 119, 120, 135, 150);
        const rows = size.chain((length) =>
          fc.array(rowsOf(resource), { minLength: length, maxLength: length }),
        );
        await fc.assert(
          fc.asyncProperty(
            rows,
            fc.array(asks(resource), { minLength: 12, maxLength: 12 }),
            async (values, questions) => {
              const { key, all } = await store(instance(), resource, `${name}-${++organizations}`, values);
              for (const ask of questions) {
                const { query, records } = expected(resource, all, ask);
                const pages = await walk(instance(), `/api/v1/${name}`, query, key);
                const seen = pages.flat();
                assert.deepEqual(
                  seen.map(({ id }) => numberText(id)),
                  records.map(({ id }) => numberText(id)),
                  query,
                );
                assert.deepEqual(seen, records);
                assert.ok(pages.slice(0, -1).every((page) => page.length === pageSize));
                assert.equal(pages.length, Math.floor(records.length / pageSize) + 1);
              }
            },
          ),
          { numRuns: 4 },
        );
      });
    }
  },
  { sources: await sourcesWith(...everyType) },
);
