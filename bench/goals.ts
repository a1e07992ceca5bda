import { formatTable } from '../engine/modules/command-line.ts';
import { batchSize } from './load.ts';

/** Median figures of an operation on a target. */
export interface Figure {
  readonly target: string;
  readonly operation: string;
  /** Requests per second. */
  readonly rate: number;
  /** Median latency, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** CPU time per request, in microseconds. */
  readonly server: number;
  readonly database: number;
}

/** A goal for one of the engine's operations. */
interface Goal {
  readonly operation: string;
  readonly label: string;
  readonly goal: number;
  /** Whether the goal is a maximum. */
  readonly isLimit?: boolean;
  /** Returns the figure, or undefined if it was not measured. */
  readonly figureOf: (figures: Figures) => number | undefined;
}

/** All measured figures. */
export interface Figures {
  readonly of: (target: string, operation: string) => Figure | undefined;
  /** PostgreSQL's CPU time for a bare statement, in microseconds, by operation. */
  readonly bare: Readonly<Record<string, number>>;
}

const cpu = ({ server, database }: Figure): number => server + database;

/** Returns a goal for the ratio between another target's CPU time and the engine's. */
const cpuVersus = (operation: string, other: string, goal: number, ours = 'engine'): Goal => ({
  operation,
  label: `CPU, ${other} ÷ ${ours}`,
  goal,
  figureOf: ({ of }) => {
    const [own, foreign] = [of(ours, operation), of(other, operation)];
    return own && foreign && cpu(foreign) / cpu(own);
  },
});
const versusHandWritten = (
  operation: string,
  of: (figure: Figure) => number,
  label: string,
  goal: number,
) => ({
  operation,
  label: `${label}, engine ÷ hand-written`,
  goal,
  figureOf: (figures: Figures) => {
    const [ours, other] = [figures.of('engine', operation), figures.of('hand-written', operation)];
    return ours && other && of(ours) / of(other);
  },
});
const versusBare = (operation: string, goal: number): Goal => ({
  operation,
  label: 'CPU of PostgreSQL ÷ bare select of ids',
  goal,
  isLimit: true,
  figureOf: ({ of, bare }) => {
    const [ours, other] = [of('engine', operation), bare[operation]];
    return ours && other && ours.database / other;
  },
});

const lists = ['list', 'list filtered', 'filtered in other order'];
const writes = ['POST', 'PUT', 'DELETE'];
const goals: readonly Goal[] = [
  cpuVersus('GET by id', 'hand-written', 2),
  cpuVersus('GET by id', 'em.find', 5),
  ...lists.flatMap((operation) => [
    cpuVersus(operation, 'hand-written', 1.8),
    versusHandWritten(operation, ({ rate }) => rate, 'requests/s', 2),
  ]),
  ...writes.flatMap((operation) => [
    cpuVersus(operation, 'hand-written', 1.3),
    cpuVersus(operation, 'hand-written', 1.5, 'engine, no activity'),
  ]),
  ...['GET by id', ...lists, ...writes].map((operation) => ({
    ...versusHandWritten(operation, ({ p99 }) => p99, 'p99', 1),
    isLimit: true,
  })),
  {
    operation: 'batch',
    label: 'records/s, batch ÷ POST in turn',
    goal: 20,
    figureOf: ({ of }) => {
      const [batch, single] = [of('engine', 'batch'), of('engine', 'POST in turn')];
      return batch && single && (batch.rate * batchSize) / single.rate;
    },
  },
  versusBare('page 900', 1.5),
  versusBare('order without index', 2),
  { ...versusBare('aggregate', 1.5), label: 'CPU of PostgreSQL ÷ a bare select of groups' },
];

/** Formats the goals of the measured operations and shows whether each goal is met. */
export function goalsReport(figures: Figures): string {
  const lines = goals.flatMap(({ operation, label, goal, isLimit = false, figureOf }) => {
    const figure = figureOf(figures);
    if (figure === undefined) return [];
    const isMet = isLimit ? figure <= goal : figure >= goal;
    return [
      [
        operation,
        label,
        `${isLimit ? '≤' : '≥'} ${goal}×`,
        `${figure.toFixed(2)}×`,
        isMet ? 'met' : 'missed',
      ],
    ];
  });
  return formatTable(['operation', 'what', 'goal', 'found', ''], lines);
}
