// Expanded lists link to the complete list of the records that refer to a record.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Document } from '../../app/commands/client-command.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { limitedKey } from '../support/limited.ts';
import { sourcesWith } from '../support/sources.ts';

const source = (name: string, text: string) => ({
  file: `resources/${name}.yaml`,
  text: `singular: ${name.slice(0, -1)}\ncommon: all\n${text}`,
});

const sources = [
  source(
    'rooms',
    `fields:
  name: { type: string }
children:
  seats: { of: seats, by: room_id, sort: { by: rank, direction: desc } }
  doors: { of: doors, by: room_id, sort: rank }
`,
  ),
  source(
    'seats',
    `fields:
  owner_id: { assignable: true }
  rank: { type: integer, nullable: true }
  secret: { type: string, group: internal }
  room_id: { type: reference, to: rooms, nullable: true }
  next_id: { type: reference, to: seats, nullable: true, group: internal }
filters: [{ field: room_id, operators: [is_null] }]
scopes:
  low: rank < 10
sort: { by: created_at }
`,
  ),
  source(
    'doors',
    `fields:
  rank: { type: integer, nullable: true }
  room_id: { type: reference, to: rooms, nullable: true }
  seen_ids: { type: references, to: rooms }
  marked_ids: { type: references, to: rooms }
  about: { type: reference, to: [rooms, leads], nullable: true }
filters: [{ field: marked_ids, operators: [any] }]
sort: { by: created_at, direction: desc, selectable: false }
`,
  ),
];

interface Row extends Record<string, unknown> {
  readonly id: number;
}
interface List {
  readonly data: readonly Row[];
  readonly has_more: boolean;
  readonly url: string;
}
/** Number of records in each list. The second page contains the last two. */
const count = 22;
const idsOf = (rows: readonly Row[]) => rows.map(({ id }) => Number(id));

onBothDrivers(
  'links of expanded lists',
  (instance) => {
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      await instance().organization('beta');
    });
    const call = (request: string, body?: unknown, key = acme.key) =>
      instance().call(request, { key, ...(body !== undefined && { body }) });
    const ok = async (...input: Parameters<typeof call>): Promise<Answer> => {
      const answer = await call(...input);
      assert.ok(answer.status < 300, `${input[0]}: ${answer.text}`);
      return answer;
    };
    const create = async (resource: string, records: readonly object[]) => {
      const { json } = await ok(`POST /api/v1/${resource}/batch`, { records });
      return (json.results as Row[]).map(({ id }) => Number(id));
    };
    const listIn = async (path: string, name: string, key?: string): Promise<List> => {
      const { json } = await ok(`GET /api/v1/${path}?expand=${name}`, undefined, key);
      return (json.expanded as Record<string, List>)[name] ?? assert.fail(`${name} is not expanded`);
    };
    const rowsAt = async (url: string, key?: string) =>
      (await ok(`GET ${url}`, undefined, key)).json.data as readonly Row[];

    test('every list of every resource', async () => {
      const seen: string[] = [];
      for (const { name: parent, definition } of instance().resources) {
        for (const { name, to = '', reference, order, isList } of definition.expansion) {
          if (!isList) continue;
          const [id = 0, other = 0] = await create(parent, [{}, {}]);
          const field = reference.alternativeOf ?? reference.name;
          const referenceTo = (target: number) => {
            if (reference.alternativeOf !== undefined) return { resource: parent, id: target };
            return reference.type.element === undefined ? target : [target];
          };
          const records = Array.from({ length: count }, (_, rank) => ({
            ...(to === 'seats' || to === 'doors' ? { rank } : {}),
            [field]: referenceTo(id),
          }));
          const ids = await create(to, [...records, { [field]: referenceTo(other) }, {}]);
          const list = await listIn(`${parent}/${id}`, name);
          const what = `${parent}.${name}: ${list.url}`;
          assert.deepEqual([list.data.length, list.has_more], [20, true], what);
          const [, path = '', query = ''] = /^(.*)\?(.*)$/.exec(list.url) ?? [];
          assert.equal(path, `/api/v1/${to}`);
          const [first, second] = [await rowsAt(list.url), await rowsAt(`${path}?page=2&${query}`)];
          // Callers cannot choose the order of doors.
          if (order === undefined || to !== 'doors') assert.deepEqual(first, list.data, what);
          assert.deepEqual(
            idsOf([...first, ...second]).toSorted((a, b) => a - b),
            ids.slice(0, count),
            what,
          );
          seen.push(`${parent} ${list.url.replace(new RegExp(`(?<=[=/])${id}(?=&|$)`), 'ID')}`);
        }
      }
      for (const link of [
        'accounts /api/v1/cases?account_id%5Bin%5D=ID',
        'accounts /api/v1/contacts?account_id=ID',
        'accounts /api/v1/opportunities?account_id=ID',
        'contacts /api/v1/cases?contact_id%5Bin%5D=ID',
        'leads /api/v1/doors?about%5Bin%5D=leads/ID',
        'rooms /api/v1/doors?about%5Bin%5D=rooms/ID',
        'rooms /api/v1/doors?marked_ids%5Bany%5D=ID',
        'rooms /api/v1/doors?room_id%5Bin%5D=ID',
        'rooms /api/v1/doors?seen_ids%5Bin%5D=ID',
        'rooms /api/v1/seats?room_id%5Bin%5D=ID&sort=rank&dir=desc',
        'seats /api/v1/seats?next_id%5Bin%5D=ID',
      ])
        assert.ok(seen.includes(link), `${link} is not in\n${seen.join('\n')}`);
    });

    test('a caller with limits gets a link to the records that it can list', async () => {
      const [room = 0] = await create('rooms', [{}]);
      await create(
        'seats',
        Array.from({ length: 12 }, (_, rank) => ({ rank, room_id: room })),
      );
      const { key } = await limitedKey(instance(), acme, ['rooms:read', 'seats:list:low', 'seats:read:low']);
      const seats = await listIn(`rooms/${room}`, 'seats', key);
      assert.equal(seats.data.length, 10);
      assert.deepEqual(await rowsAt(seats.url, key), seats.data);
      // The reference is in a group that the caller cannot read.
      const { json } = await call(`GET /api/v1/seats?next_id[in]=1`, undefined, key);
      assert.equal(
        json.error,
        'next_id[in] is not a filter of this list. Available filters: room_id[is_null], room_id[in]',
      );
    });

    test('filters of lists of references find only references that the caller can read', async () => {
      const [room = 0] = await create('rooms', [{}]);
      const [door = 0] = await create('doors', [{ seen_ids: [room] }]);
      const { data } = (await ok(`GET /api/v1/doors?seen_ids[in]=${room}&seen_ids[in]=1`)).json;
      assert.ok(idsOf(data as Row[]).includes(door));
      const plain = await ok(`GET /api/v1/doors?seen_ids=${room}`);
      const all = await ok('GET /api/v1/doors');
      assert.equal(
        plain.text,
        all.text,
        'the plain parameter is unknown, and unknown parameters are ignored',
      );
    });

    test('the description and the lists of parameters contain the filters', async () => {
      const document = (await instance().call('GET /docs/openapi.json')).json as unknown as Document;
      const names = Object.values(document.components.parameters).map(({ name }) => name);
      for (const name of ['next_id[in]', 'seen_ids[in]', 'about[in]']) assert.ok(names.includes(name), name);
      const expanded = document.components.schemas.RoomProjection?.properties?.expanded?.properties?.seats;
      assert.deepEqual(expanded?.properties?.url, {
        type: 'string',
        description: 'Path of the complete list.',
      });
    });
  },
  { sources: await sourcesWith(...sources) },
);
