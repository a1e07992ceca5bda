// Stored rollups are equal to rollups that are calculated when they are read, whatever clients do concurrently.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import fc from 'fast-check';
import { type Answer, onBothDrivers } from '../support/instance.ts';
import { sourcesWith } from '../support/sources.ts';
import { outdatedRollups, projects, recordsOf } from '../support/stored-rollups.ts';

const sources = await sourcesWith(...projects);

/** Number of projects. */
const count = 3;
/** Index into the projects; null for none. */
const project = fc.option(fc.nat({ max: count - 1 }), { freq: 5 });
/** A task's values. */
const values = fc.record(
  {
    project_id: project,
    reviewed_project_id: project,
    status: fc.constantFrom('open', 'done'),
    quantity: fc.integer({ min: -3, max: 2_000_000_000 }),
    unit_price: fc.option(fc.integer({ min: -50, max: 50 }).map((cents) => cents / 100)),
    payment: fc.option(fc.integer({ min: -9, max: 9 }).map((amount) => ({ amount, currency: 'EUR' }))),
    due_on: fc.constantFrom(null, '2026-01-01', '2026-02-01', '2026-03-01'),
    seen_at: fc.constantFrom(null, '2026-01-01T10:00:00+09:00', '2026-01-01T09:00:00Z'),
  },
  { requiredKeys: [] },
);
/** A request. Tasks are chosen by an index into those that exist. */
const request = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('create' as const), body: values }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('update' as const), task: fc.nat(), body: values }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom('trash', 'restore'), task: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('batch create' as const),
      bodies: fc.array(values, { minLength: 2, maxLength: 5 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('batch update' as const),
      changes: fc.array(fc.record({ task: fc.nat(), body: values }), { minLength: 2, maxLength: 5 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('nested' as const),
      project: fc.nat({ max: count - 1 }),
      parent: project,
      bodies: fc.array(values, { maxLength: 3 }),
    }),
  },
);

onBothDrivers(
  'Stored rollups under concurrent writes',
  (instance) => {
    let key: string;
    before(async () => {
      ({ key } = await instance().organization('alpha'));
    });

    test('are exact', async () => {
      const send = (request: string, body?: unknown) =>
        instance().call(request, { key, ...(body !== undefined && { body }) });
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(request, { minLength: 1, maxLength: 5 }), { minLength: 2, maxLength: 4 }),
          async (clients) => {
            const created = await send('POST /api/v1/projects/batch', {
              records: Array.from({ length: count }, (_, index) => ({ name: `p${index}` })),
            });
            const ids = (created.json.results as { id: number }[]).map(({ id }) => id);
            const idOf = (index: number | null | undefined) =>
              index === undefined || index === null ? null : (ids[index] ?? null);
            const bodyOf = ({ project_id: of, reviewed_project_id: reviewed, ...body }: Partial<Values>) => ({
              ...body,
              ...(of !== undefined && { project_id: idOf(of) }),
              ...(reviewed !== undefined && { reviewed_project_id: idOf(reviewed) }),
            });
            const tasks: number[] = [];
            const taskOf = (index: number) => tasks[index % tasks.length] ?? 0;
            const perform = async (one: Request): Promise<void> => {
              let answer: Answer;
              switch (one.kind) {
                case 'create':
                  answer = await send('POST /api/v1/tasks', bodyOf(one.body));
                  if (answer.status === 201) tasks.push(Number(answer.json.id));
                  break;
                case 'update':
                  answer = await send(`PATCH /api/v1/tasks/${taskOf(one.task)}`, bodyOf(one.body));
                  break;
                case 'trash':
                  answer = await send(`DELETE /api/v1/tasks/${taskOf(one.task)}`);
                  break;
                case 'restore':
                  answer = await send(`POST /api/v1/tasks/${taskOf(one.task)}/restore`);
                  break;
                case 'batch create':
                  answer = await send('POST /api/v1/tasks/batch', { records: one.bodies.map(bodyOf) });
                  for (const { id } of (answer.json.results ?? []) as { id: number }[]) tasks.push(id);
                  break;
                case 'batch update': {
                  const records = new Map(
                    one.changes.map(({ task, body }) => [
                      taskOf(task),
                      { id: taskOf(task), ...bodyOf(body) },
                    ]),
                  );
                  answer = await send('PATCH /api/v1/tasks/batch', {
                    on_error: 'continue',
                    records: [...records.values()],
                  });
                  break;
                }
                case 'nested':
                  // The other tasks of the project are moved to the trash.
                  answer = await send(`PUT /api/v1/projects/${idOf(one.project)}`, {
                    parent_id: idOf(one.parent),
                    items: one.bodies.map(({ project_id: _, ...body }) => bodyOf(body)),
                  });
                  break;
              }
              // 404 and 409: another client has moved the task to the trash or restored it.
              assert.ok(
                answer.status < 300 || [404, 409].includes(answer.status),
                `${one.kind}: ${answer.text}`,
              );
            };
            await Promise.all(
              clients.map(async (requests) => {
                for (const one of requests) await perform(one);
              }),
            );
            const records = recordsOf(await send(`GET /api/v1/projects?sort=id&dir=desc`));
            assert.deepEqual(outdatedRollups(records), []);
          },
        ),
        // The embedded database runs one statement after the other.
        { numRuns: instance().driver === 'embedded' ? 4 : 12 },
      );
    });
  },
  { sources },
);

type Request = typeof request extends fc.Arbitrary<infer Value> ? Value : never;
type Values = typeof values extends fc.Arbitrary<infer Value> ? Value : never;
