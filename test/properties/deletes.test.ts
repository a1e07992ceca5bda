// Deletes with every `on_delete`: random graphs of records are deleted as a reference model predicts, and the change
// log explains every change, even if clients create, move and delete records concurrently.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { checkSources } from '../../engine/definition/check-sources.ts';
import { type Answer, type Organization, onBothDrivers } from '../support/instance.ts';
import { related } from '../support/related.ts';
import { sourcesWith } from '../support/sources.ts';

const sources = await sourcesWith(...related);
const names = related.map(({ file }) => file.replace(/^.*\/|\.yaml$/g, ''));
/** Every reference of the related resources. */
const references = checkSources(sources)
  .filter(({ name }) => names.includes(name))
  .flatMap(({ name, fields }) =>
    fields.flatMap(({ name: field, to, onDelete, required }) =>
      to === undefined || onDelete === undefined ? [] : [{ resource: name, field, to, onDelete, required }],
    ),
  );
const ofResource = (resource: string) => references.filter((reference) => reference.resource === resource);

/** A record's references by field. */
type Links = Readonly<Record<string, string | null>>;
/** Records by key, for example `papers/7`. */
type Graph = ReadonlyMap<string, Links>;
const keyOf = (resource: string, id: unknown) => `${resource}/${id}`;
const splitKey = (key: string) => key.split('/') as [string, string];

/** A reference from one record to another. */
interface Link {
  readonly from: string;
  readonly field: string;
  readonly to: string;
  readonly onDelete: string;
}
const linksOf = (graph: Graph): Link[] =>
  [...graph].flatMap(([from, fields]) => {
    const [resource] = splitKey(from);
    return ofResource(resource).flatMap(({ field, to, onDelete }) => {
      const id = fields[field] ?? null;
      return id === null ? [] : [{ from, field, to: keyOf(to, id), onDelete }];
    });
  });

/** Returns the records that a delete of these records removes. */
function closureOf(links: readonly Link[], roots: readonly string[]): Set<string> {
  const deleted = new Set(roots);
  for (const key of deleted)
    for (const { from, to, onDelete } of links) if (to === key && onDelete === 'cascade') deleted.add(from);
  return deleted;
}

/** Returns the graph after a delete, or undefined if a reference prevents it. */
function afterDelete(graph: Graph, roots: readonly string[]): Graph | undefined {
  const links = linksOf(graph);
  const deleted = closureOf(links, roots);
  if (
    links.some(({ from, to, onDelete }) => onDelete === 'restrict' && deleted.has(to) && !deleted.has(from))
  )
    return undefined;
  const next = new Map([...graph].filter(([key]) => !deleted.has(key)));
  for (const { from, field, to } of links)
    if (deleted.has(to) && next.has(from)) next.set(from, { ...next.get(from), [field]: null });
  return next;
}

/** A record to create: its resource, and for each reference an index into the existing records. */
const node = fc.record({
  resource: fc.constantFrom(...names),
  targets: fc.array(fc.option(fc.nat(), { freq: 2 }), { minLength: 4, maxLength: 4 }),
});
const graphs = fc.array(node, { minLength: 1, maxLength: 14 });

/** A row of the change log. */
interface Change {
  readonly object: string;
  readonly id: string;
  readonly action: string;
  readonly request: string;
  readonly version: number;
  readonly record: Readonly<Record<string, unknown>> | null;
  readonly before: Readonly<Record<string, unknown>> | null;
}

onBothDrivers(
  'Deletes',
  (instance) => {
    let alpha: Organization;
    before(async () => {
      alpha = await instance().organization('alpha');
    });
    const send = (request: string, body?: unknown) => instance().call(request, { key: alpha.key, body });
    const rowsOf = async (text: string) =>
      (await instance().database.run({ name: '', text, values: [alpha.id] })).map((row) => row.map(String));
    const readGraph = async (): Promise<Graph> => {
      const graph = new Map<string, Links>();
      for (const name of names) {
        const rows = await rowsOf(
          `select row_to_json(t)::text from "${name}" t where organization_id = $1::bigint`,
        );
        for (const [json = ''] of rows) {
          const record = JSON.parse(json) as Record<string, number | null>;
          const links = ofResource(name).map(({ field }) => {
            const id = record[field] ?? null;
            return [field, id === null ? null : String(id)] as const;
          });
          graph.set(keyOf(name, record.id), Object.fromEntries(links));
        }
      }
      return graph;
    };
    const changesAfter = async (id: string): Promise<Change[]> =>
      (
        await rowsOf(
          `select id::text, row_to_json(l)::text from crm_ledger l where organization_id = $1::bigint and version is not null and id > ${id} order by id`,
        )
      ).map(([, json = '']) => {
        const row = JSON.parse(json) as Record<string, string | number | null>;
        const parsed = (text: unknown) =>
          text === null ? null : (JSON.parse(String(text)) as Change['record']);
        return {
          object: String(row.object),
          id: String(row.object_id),
          action: String(row.action),
          request: String(row.request_id),
          version: Number(row.version),
          record: parsed(row.record),
          before: parsed(row.before),
        };
      });
    const lastChange = async () =>
      (
        await rowsOf('select coalesce(max(id), 0)::text from crm_ledger where organization_id = $1::bigint')
      )[0]?.[0] ?? '0';
    /** Deletes every record, starting with those that no reference protects. */
    const clear = async () => {
      for (const name of [...names].reverse())
        await rowsOf(
          `update "${name}" set ${[
            ...ofResource(name)
              .filter(({ required }) => !required)
              .map(({ field }) => `"${field}" = null`),
            'name = name',
          ].join(', ')} where organization_id = $1::bigint returning id`,
        );
      for (const name of ['labels', 'clamps', 'reviews', 'papers', 'folders'])
        await rowsOf(`delete from "${name}" where organization_id = $1::bigint returning id`);
    };
    const create = async (
      { resource, targets }: { resource: string; targets: (number | null)[] },
      known: Map<string, string[]>,
    ) => {
      const body: Record<string, unknown> = {};
      for (const [index, { field, to, required }] of ofResource(resource).entries()) {
        const ids = known.get(to) ?? [];
        const target = targets[index] ?? (required ? 0 : null);
        if (target !== null && ids.length > 0) body[field] = Number(ids[target % ids.length]);
      }
      const answer = await send(`POST /api/v1/${resource}`, body);
      if (answer.status !== 201) return answer;
      known.set(resource, [...(known.get(resource) ?? []), String(answer.json.id)]);
      return answer;
    };
    /** Creates a graph. Later records are also linked from earlier ones, so that there are cycles. */
    const build = async (nodes: readonly { resource: string; targets: (number | null)[] }[]) => {
      const known = new Map<string, string[]>();
      for (const one of nodes) await create(one, known);
      for (const [index, { resource, targets }] of nodes.entries()) {
        const ids = known.get(resource) ?? [];
        if (ids.length === 0) continue;
        const [link] = ofResource(resource).filter(({ required }) => !required);
        const candidates = known.get(link?.to ?? '') ?? [];
        const target = targets[3] ?? null;
        if (link === undefined || target === null || candidates.length === 0) continue;
        await send(`PATCH /api/v1/${resource}/${ids[index % ids.length]}`, {
          [link.field]: Number(candidates[target % candidates.length]),
        });
      }
      return readGraph();
    };

    /** Asserts that the change log has exactly the changes between two graphs. */
    const assertChanges = (previous: Graph, next: Graph, changes: readonly Change[]) => {
      const expected = [...previous].flatMap(([key, links]) => {
        if (!next.has(key)) return [`${key} delete`];
        return JSON.stringify(next.get(key)) === JSON.stringify(links) ? [] : [`${key} update`];
      });
      assert.deepEqual(
        changes.map(({ object, id, action }) => `${keyOf(object, id)} ${action}`).sort(),
        expected.sort(),
      );
      assert.ok(new Set(changes.map(({ request }) => request)).size <= 1);
    };

    test('delete single records as the model predicts', async () => {
      let [deleted, rejected, cascaded] = [0, 0, 0];
      await fc.assert(
        fc.asyncProperty(graphs, fc.nat(), async (nodes, pick) => {
          await clear();
          const graph = await build(nodes);
          const key = [...graph.keys()][pick % Math.max(graph.size, 1)];
          if (key === undefined) return;
          const since = await lastChange();
          const expected = afterDelete(graph, [key]);
          const answer = await send(`DELETE /api/v1/${key}`);
          if (expected === undefined) {
            rejected++;
            assert.equal(answer.status, 409, answer.text);
            assert.equal(answer.json.code, 'referenced');
            const links = linksOf(graph);
            const closure = closureOf(links, [key]);
            const counts = new Map<string, number>();
            for (const { from, field, to, onDelete } of links) {
              if (onDelete !== 'restrict' || !closure.has(to) || closure.has(from)) continue;
              const name = `${splitKey(from)[0]}.${field}`;
              counts.set(name, (counts.get(name) ?? 0) + 1);
            }
            const referrers = answer.json.referrers as { resource: string; field: string; count: number }[];
            assert.deepEqual(
              new Map(referrers.map(({ resource, field, count }) => [`${resource}.${field}`, count])),
              counts,
            );
          } else {
            assert.equal(answer.status, 200, answer.text);
            deleted++;
            if (graph.size - expected.size > 1) cascaded++;
          }
          assert.deepEqual(await readGraph(), expected ?? graph);
          assertChanges(graph, expected ?? graph, await changesAfter(since));
        }),
        { numRuns: 150 },
      );
      assert.ok(deleted > 0 && rejected > 0 && cascaded > 0, `${[deleted, rejected, cascaded]}`);
    });

    test('delete batches as the model predicts', async () => {
      await fc.assert(
        fc.asyncProperty(
          graphs,
          fc.array(fc.nat(), { minLength: 1, maxLength: 6 }),
          fc.constantFrom('stop', 'continue'),
          async (nodes, picks, onError) => {
            await clear();
            const graph = await build(nodes);
            const [resource = ''] = splitKey(
              [...graph.keys()][(picks[0] ?? 0) % Math.max(graph.size, 1)] ?? '',
            );
            const candidates = [...graph.keys()].filter((key) => key.startsWith(`${resource}/`));
            if (candidates.length === 0) return;
            const keys = [...new Set(picks.map((pick) => candidates[pick % candidates.length] ?? ''))];
            const since = await lastChange();
            const answer = await send(`DELETE /api/v1/${resource}/batch`, {
              ids: keys.map((key) => Number(splitKey(key)[1])),
              on_error: onError,
            });
            const together = afterDelete(graph, keys);
            let expected = together ?? graph;
            if (together !== undefined)
              assert.deepEqual(
                statusesOf(answer),
                keys.map(() => 200),
              );
            else if (onError === 'stop') {
              assert.equal(answer.status, 400, answer.text);
              assert.equal(answer.json.code, 'items_refused');
            } else {
              const statuses = statusesOf(answer);
              assert.ok(
                statuses.every((status) => status === 200 || status === 409),
                answer.text,
              );
              assert.ok(statuses.includes(409), answer.text);
              const accepted = keys.filter((_, index) => statuses[index] === 200);
              expected = afterDelete(graph, accepted) ?? assert.fail('deletes a protected record');
              // Without the rejected records, no other record could have been deleted alone.
              for (const key of keys.filter((_, index) => statuses[index] === 409))
                assert.equal(afterDelete(graph, [...accepted, key]), undefined, key);
            }
            assert.deepEqual(await readGraph(), expected);
            assertChanges(graph, expected, await changesAfter(since));
          },
        ),
        { numRuns: 150 },
      );
    });

    test('leave a complete change log when clients create, move and delete records concurrently', async () => {
      await clear();
      const since = await lastChange();
      const known = new Map<string, string[]>();
      for (let index = 0; index < 6; index++)
        for (const resource of names) await create({ resource, targets: [index, index, null, null] }, known);
      const [seed] = fc.sample(
        fc.array(fc.tuple(node, fc.nat(), fc.nat(5)), { minLength: 600, maxLength: 600 }),
        1,
      );
      const steps = [...(seed ?? [])];
      const statuses: Answer[] = [];
      const client = async () => {
        for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
          const [one, pick, kind] = step;
          const ids = known.get(one.resource) ?? [];
          const id = ids[pick % Math.max(ids.length, 1)];
          const [link] = ofResource(one.resource).filter((_, index) => index === pick % 4);
          const targets = known.get(link?.to ?? '') ?? [];
          if (kind === 0 && id !== undefined)
            statuses.push(await send(`DELETE /api/v1/${one.resource}/${id}`));
          else if (kind === 1 && id !== undefined)
            statuses.push(
              await send(`DELETE /api/v1/${one.resource}/batch`, {
                ids: [...new Set([id, ids[(pick + 1) % ids.length]])].map(Number),
                on_error: 'continue',
              }),
            );
          else if (kind <= 3 && id !== undefined && link !== undefined && targets.length > 0)
            statuses.push(
              await send(`PATCH /api/v1/${one.resource}/${id}`, {
                [link.field]: Number(targets[pick % targets.length]),
              }),
            );
          else statuses.push(await create(one, known));
        }
      };
      await Promise.all(Array.from({ length: 8 }, client));
      for (const { status, text } of statuses) assert.ok([200, 201, 400, 404, 409].includes(status), text);

      const graph = await readGraph();
      const changes = await changesAfter(since);
      const byRecord = Map.groupBy(changes, ({ object, id }) => keyOf(object, id));
      for (const [key, all] of byRecord) {
        const ordered = all.toSorted((a, b) => a.version - b.version);
        assert.deepEqual(
          ordered.map(({ version }) => version),
          ordered.map((_, index) => index + 1),
          key,
        );
        const last = ordered.at(-1);
        assert.equal(last?.action === 'delete', !graph.has(key), key);
        for (const { field } of ofResource(splitKey(key)[0]))
          if (last?.record)
            assert.equal(String(last.record[field] ?? null), String(graph.get(key)?.[field] ?? null), key);
      }
      assert.deepEqual(
        [...graph.keys()].filter((key) => !byRecord.has(key)),
        [],
      );

      let dependents = 0;
      for (const all of Map.groupBy(changes, ({ request }) => request).values()) {
        const deleted = new Map(
          all
            .filter(({ action }) => action === 'delete')
            .map(({ object, id, before }) => [keyOf(object, id), before]),
        );
        if (deleted.size === 0) continue;
        const requested = new Set<string>();
        // A record can be the request's own, or it referred to a record deleted with it.
        for (const [key, record] of deleted) {
          const isDependent = ofResource(splitKey(key)[0]).some(
            ({ field, to, onDelete }) => onDelete === 'cascade' && deleted.has(keyOf(to, record?.[field])),
          );
          if (isDependent) dependents++;
          else requested.add(splitKey(key)[0]);
        }
        assert.ok(requested.size <= 1, `${[...deleted.keys()]}`);
        for (const { object, id, record, action } of all.filter(({ action }) => action !== 'delete')) {
          assert.equal(action, 'update');
          const previous = byRecord
            .get(keyOf(object, id))
            ?.find(
              ({ version }) =>
                version === (all.find((one) => one.id === id && one.object === object)?.version ?? 0) - 1,
            );
          for (const { field, to } of ofResource(object)) {
            const target = previous?.record?.[field] ?? null;
            const isCleared = target !== null && deleted.has(keyOf(to, target));
            assert.equal(record?.[field] ?? null, isCleared ? null : target, `${object}/${id} ${field}`);
          }
        }
      }
      assert.ok(dependents > 0);
    });

    const statusesOf = ({ status, text, json }: Answer) => {
      assert.equal(status, 200, text);
      return (json.results as { status: number }[]).map((result) => result.status);
    };
  },
  { sources },
);
