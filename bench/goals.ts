import { formatTable } from '../engine/modules/command-line.ts';
import { batchSize } from './load.ts';

/** The median figures of one operation of one target. */
export interface Figure {
  readonly target: string;
  readonly operation: string;
  /** Requests per second. */
  readonly rate: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Microseconds of CPU time of a request. */
  readonly server: number;
  readonly database: number;
}

/** A goal for an operation of the engine. */
interface Goal {
  readonly operation: string;
  readonly what: string;
  readonly goal: number;
  /** Whether less is better. */
  readonly isLimit?: boolean;
  /** The figure; undefined if it was not measured. */
  readonly found: (figures: Figures) => number | undefined;
}

/** Everything that was measured. */
export interface Figures {
  readonly of: (target: string, operation: string) => Figure | undefined;
  /** PostgreSQL's CPU time for a bare statement, by the operation that it belongs to. */
  readonly bare: Readonly<Record<string, number>>;
}

const cpu = ({ server, database }: Figure): number => server + database;

/** How much less CPU time the engine takes than another target. */
const cpuAgainst = (operation: string, other: string, goal: number, ours = 'engine'): Goal => ({
  operation,
  what: `CPU, ${other} ÷ ${ours}`,
  goal,
  found: ({ of }) => {
    const [mine, theirs] = [of(ours, operation), of(other, operation)];
    return mine && theirs && cpu(theirs) / cpu(mine);
  },
});
const againstHandWritten = (
  operation: string,
  of: (figure: Figure) => number,
  what: string,
  goal: number,
) => ({
  operation,
  what: `${what}, engine ÷ hand-written`,
  goal,
  found: (figures: Figures) => {
    const [mine, theirs] = [figures.of('engine', operation), figures.of('hand-written', operation)];
    return mine && theirs && of(mine) / of(theirs);
  },
});
const againstBare = (operation: string, goal: number): Goal => ({
  operation,
  what: 'CPU of PostgreSQL ÷ bare select of ids',
  goal,
  isLimit: true,
  found: ({ of, bare }) => {
    const [mine, theirs] = [of('engine', operation), bare[operation]];
    return mine && theirs && mine.database / theirs;
  },
});

const lists = ['list', 'list filtered', 'filtered in other order'];
const writes = ['POST', 'PUT', 'DELETE'];
const goals: readonly Goal[] = [
  cpuAgainst('GET by id', 'hand-written', 2),
  cpuAgainst('GET by id', 'em.find', 5),
  ...lists.flatMap((operation) => [
    cpuAgainst(operation, 'hand-written', 1.8),
    againstHandWritten(operation, ({ rate }) => rate, 'requests/s', 2),
  ]),
  ...writes.flatMap((operation) => [
    cpuAgainst(operation, 'hand-written', 1.3),
    cpuAgainst(operation, 'hand-written', 1.5, 'engine, no activity'),
  ]),
  ...['GET by id', ...lists, ...writes].map((operation) => ({
    ...againstHandWritten(operation, ({ p99 }) => p99, 'p99', 1),
    isLimit: true,
  })),
  {
    operation: 'batch',
    what: 'records/s, batch ÷ POST in turn',
    goal: 20,
    found: ({ of }) => {
      const [batch, single] = [of('engine', 'batch'), of('engine', 'POST in turn')];
      return batch && single && (batch.rate * batchSize) / single.rate;
    },
  },
  againstBare('page 900', 1.5),
  againstBare('order without index', 2),
];

/** What of the goals is met, for what was measured. */
export function goalsReport(figures: Figures): string {
  const lines = goals.flatMap(({ operation, what, goal, isLimit = false, found }) => {
    const figure = found(figures);
    if (figure === undefined) return [];
    const isMet = isLimit ? figure <= goal : figure >= goal;
    return [
      [operation, what, `${isLimit ? '≤' : '≥'} ${goal}×`, `${figure.toFixed(2)}×`, isMet ? 'met' : 'missed'],
    ];
  });
  return formatTable(['operation', 'what', 'goal', 'found', ''], lines);
}
