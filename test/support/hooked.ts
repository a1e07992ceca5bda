// Resources and modules with hooks, for tests.
import { type ModuleCode, Rejection } from '../../engine/records/index.ts';
import type { Source } from '../../engine/yaml/load.ts';

/** Resources whose records have hooks: projects, and tasks that are written together with them. */
export const hookedSources: readonly Source[] = [
  {
    file: 'resources/projects.yaml',
    text: `
singular: project
description: A project.
common: all
fields:
  name: { type: string, description: The name. }
  open_tasks: { type: int64, read_only: true, default: 0, description: The number of tasks. }
sort: { by: name }
filters: [name, { field: open_tasks, operators: [gt, lt] }]
children:
  tasks: { of: tasks, by: project_id, writable: true }
`,
  },
  {
    file: 'resources/tasks.yaml',
    text: `
singular: task
description: A task.
common: all
trash: 30 days
fields:
  owner_id: { assignable: true }
  score: { type: int64, read_only: true, nullable: true, description: The score. }
  project_id: { type: reference, to: projects, nullable: true, description: The project. }
  title: { type: string, description: The title. }
  code: { type: string, nullable: true, description: The code. }
  points: { type: int64, nullable: true, description: The points. }
  details: { type: json, nullable: true, description: The details. }
  hours: { type: number, nullable: true, description: The hours. }
  margin: { type: int64, nullable: true, group: finance, description: The margin. }
unique: [code]
sort: { by: title }
filters: [title, { field: project_id, operators: [eq, is_null] }, code]
scopes:
  own: owner_id == me
`,
  },
];

/** A call of a hook. */
export interface HookCall {
  readonly hook: string;
  readonly action: string;
  readonly values: Readonly<Record<string, unknown>>;
}

/** Modules whose hooks record their calls in `calls`. */
export function hookedModules(calls: HookCall[]): readonly ModuleCode[] {
  const note = (hook: string, action: string, values: HookCall['values']) => {
    calls.push({ hook, action, values });
  };
  return [
    {
      name: 'scores',
      hooks: {
        tasks: {
          beforeWrite: async ({ action, input, previous, records, caller, signal }) => {
            note('before', action, { input, previous, caller, signal: signal.aborted });
            const title = input?.title ?? previous?.title;
            if (title === 'forbidden') throw new Rejection('forbidden is not a title', { field: 'title' });
            if (title === 'undeletable' && action === 'delete') throw new Rejection('Finish the task first');
            if (title === 'broken') throw new TypeError('a secret of the hook');
            if (title === 'misnamed')
              throw Object.assign(new RangeError('misnamed is not a title'), {
                field: 'title',
                hint: 'Wait.',
              });
            if (title === 'numbered')
              throw Object.assign(new RangeError('a secret of the hook'), { field: 7 });
            if (action === 'update' && title === 'read again')
              note('read again', action, { record: await records.get('tasks', previous?.id as bigint) });
            if (title === 'hidden project') await records.get('projects', 1n);
            if (action === 'create' && (title === 'project' || title === 'project, then rejection'))
              await records.create('projects', { name: `made for ${title}` });
            if (title === 'project, then rejection') throw new Rejection('not this one');
            if (action === 'create' && title === 'not awaited') {
              void records.create('projects', { name: 'not awaited' });
              void records.create('nothing', {});
              void records.find('nothing');
            }
            if (title === 'system error')
              await records.asSystem('test').create('tasks', { title: 'forbidden' });
            if (title === 'system error: not found') await records.asSystem('test').delete('projects', 0n);
            if (title === 'system error: duplicate')
              await records.asSystem('test').create('tasks', { title: 'again', code: 'S1' });
            if (title === 'unknown field') return { nonsense: 1 };
            if (title === 'many queries') await Promise.all([1, 2, 3].map(() => records.find('projects')));
            if (title === 'slow') await new Promise((resolve) => setTimeout(resolve, 60_000).unref());
            if (input === undefined) return undefined;
            const points = (input.points ?? previous?.points ?? 0n) as bigint;
            return { ...input, score: points * 2n, ...(title === 'with a margin' && { margin: 9n }) };
          },
          afterWrites: async ({ writes, records }) => {
            for (const { action, record, previous } of writes) note('after', action, { record, previous });
            if (writes.some(({ record }) => record?.title === 'fails after'))
              throw new Rejection('No task can be called that');
            const projects = new Set(
              writes.flatMap(({ record, previous }) => [
                (record?.project_id ?? null) as bigint | null,
                (previous?.project_id ?? null) as bigint | null,
              ]),
            );
            for (const id of projects) {
              if (id === null) continue;
              const where = { field: 'project_id', op: 'eq', value: id };
              const tasks = await records.asSystem('count tasks').find('tasks', { where });
              if ((await records.get('projects', id)) !== undefined)
                await records
                  .asSystem('count tasks')
                  .update('projects', id, { open_tasks: BigInt(tasks.length) });
            }
          },
        },
        projects: {
          beforeWrites: ({ writes }) => {
            for (const { action, input, previous } of writes) note('projects', action, { input, previous });
            return writes.map(({ input }) => input);
          },
        },
      },
    },
    {
      name: 'planning',
      actions: {
        tasks: {
          close: {
            description: 'Closes a task.',
            input: {
              type: 'object',
              properties: { hours: { type: 'number', minimum: 0 }, note: { type: 'string' } },
              required: ['hours'],
              additionalProperties: false,
            },
            output: { type: 'object', properties: { title: { type: 'string' } } },
            run: async ({ id, record, input, records, caller }) => {
              note('action', 'close', { id, record, input, caller });
              if (id === undefined) throw new Error('it is an action of a record');
              if (record?.title === 'open forever') throw new Rejection('Never close it', { hint: 'Wait.' });
              const task = await records.update('tasks', id, { title: 'closed', hours: String(input.hours) });
              await records.create('projects', { name: `after ${id}` });
              return { title: task.title, points: task.points, big: 2n ** 60n };
            },
          },
          archive: {
            description: 'Archives a task.',
            permission: 'own',
            run: async ({ id, records }) => {
              if (id === undefined) throw new Error('it is an action of a record');
              await records.asSystem('archive').update('tasks', id, { code: `archived-${id}` });
              return undefined;
            },
          },
          'count-margins': {
            description: 'Counts the margins.',
            label: 'Count margins',
            permission: 'read',
            run: ({ record }) => ({ hasMargin: record !== undefined && 'margin' in record }),
          },
        },
        projects: {
          plan: {
            description: 'Creates a project with tasks.',
            ofCollection: true,
            run: async ({ records }) => {
              const project = await records.create('projects', { name: 'planned' });
              for (const title of ['x', 'forbidden'])
                await records.create('tasks', { title, project_id: project.id });
              return undefined;
            },
          },
        },
      },
    },
    {
      name: 'loops',
      hooks: {
        accounts: {
          afterWrite: async ({ id, record, records }) => {
            if (record?.name !== 'loop') return;
            await records.update('accounts', id, { description: String(Math.random()) });
          },
        },
      },
    },
  ];
}
