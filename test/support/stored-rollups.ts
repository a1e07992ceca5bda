// Test support: projects with stored rollups of their tasks, each next to the same rollup that is calculated when it is read.
import type { Source } from '../../engine/yaml/load.ts';
import type { Answer } from './instance.ts';

const field = 'description: A field.';

/** The rollups by name, as written in YAML without `stored`, with the other keys of their fields. */
const rollups = {
  total: ['type: number', 'sum: amount, of: tasks, by: project_id'],
  paid: ['type: money, currency: EUR', 'sum: payment, of: tasks, by: project_id'],
  tasks: ['type: integer', 'count: true, of: tasks, by: project_id'],
  open_tasks: [
    'type: int64',
    'count: true, of: tasks, by: project_id, where: status == "open" && amount >= 2.5',
  ],
  smallest: ['type: number', 'min: amount, of: tasks, by: project_id'],
  largest: ['type: money, currency: EUR', 'max: payment, of: tasks, by: project_id'],
  average: ['type: number', 'avg: amount, of: tasks, by: project_id'],
  pieces: ['type: integer', 'sum: quantity, of: tasks, by: project_id'],
  last_due_on: ['type: date', 'max: due_on, of: tasks, by: project_id'],
  last_seen_at: ['type: timestamp', 'max: seen_at, of: tasks, by: project_id'],
  reviews: ['type: integer', 'count: true, of: tasks, by: reviewed_project_id'],
  profit: ['type: number, group: finance', 'sum: profit, of: tasks, by: project_id'],
  parts: ['type: integer', 'count: true, of: projects, by: parent_id'],
} as const;

/** Names of the stored rollups. */
export const storedNames = Object.keys(rollups);

/** Name of the rollup with the same value that is not stored. */
export const calculated = (name: string) => `live_${name}`;

const fields = Object.entries(rollups).flatMap(([name, [type, rollup]]) => [
  `  ${name}: { ${type}, rollup: { ${rollup}, stored: true }, ${field} }`,
  `  ${calculated(name)}: { ${type}, rollup: { ${rollup} }, ${field} }`,
]);

/** Projects and their tasks. */
export const projects: readonly Source[] = [
  {
    file: 'projects.yaml',
    text: `
singular: project
description: A project.
common: all
fields:
  name: { type: string, ${field} }
  parent_id: { type: reference, to: projects, nullable: true, ${field} }
${fields.join('\n')}
sort: { by: id }
filters:
  - name
  - { field: total, operators: [eq, ne, in, gt, gte, lt, lte] }
  - { field: smallest, operators: [is_null] }
  - { field: paid, operators: [gte] }
  - { field: last_due_on, operators: [eq, lt] }
  - { field: last_seen_at, operators: [gte] }
children: { items: { of: tasks, by: project_id, sort: id, writable: true } }
`,
  },
  {
    file: 'tasks.yaml',
    text: `
singular: task
description: A task of a project.
common: all
trash: 30 days
fields:
  project_id: { type: reference, to: projects, nullable: true, ${field} }
  reviewed_project_id: { type: reference, to: projects, nullable: true, ${field} }
  status: { type: string, default: open, ${field} }
  quantity: { type: integer, default: 1, ${field} }
  unit_price: { type: number, nullable: true, ${field} }
  amount: { type: number, computed: quantity * unit_price, ${field} }
  payment: { type: money, currency: EUR, nullable: true, ${field} }
  due_on: { type: date, nullable: true, ${field} }
  seen_at: { type: timestamp, nullable: true, ${field} }
  profit: { type: number, nullable: true, group: finance, ${field} }
sort: { by: id }
filters: [project_id, reviewed_project_id]
`,
  },
];

/** Returns a page's records. */
export const recordsOf = ({ json }: Answer) => json.data as Readonly<Record<string, unknown>>[];

/** Returns the differences between stored rollups and those calculated when they were read, one per line. */
export const outdatedRollups = (records: readonly Readonly<Record<string, unknown>>[]): string[] =>
  records.flatMap((record) =>
    storedNames.flatMap((name) => {
      const [stored, live] = [record[name], record[calculated(name)]].map((value) => JSON.stringify(value));
      return stored === live ? [] : [`${record.id}: ${name} is ${stored}, not ${live}`];
    }),
  );
