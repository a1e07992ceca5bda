// Runs the tests: one PostgreSQL server (or that of TEST_POSTGRES_URL) and one set of ready-made databases for all of them, a process for a few files.
//   node test/run.ts [--fast] [file…]
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { pathToFileURL } from 'node:url';
import { startPostgres } from './support/postgres.ts';
import { clusterFolder } from './support/templates.ts';
import { unseen } from './support/unseen.ts';

/**
 * What takes longest comes first, so that nothing long is left for the end, when one core would be idle; a browser, which
 * needs a core for itself, at the same time as faults, which mostly wait.
 */
const longest = [
  'webhooks/simulate',
  'browser',
  'faults',
  'schema',
  'client',
  'cli',
  'features/bounded',
  'properties',
  'webhooks',
  'features/bodies',
  'features/lists',
  'docs',
  'screens',
  'features',
];
/** What `--fast` leaves out: other processes, browsers, what is generated at random, waits and floods. */
const slow = [
  ...[
    'cli',
    'faults',
    'browser',
    'settings',
    'properties',
    'webhooks',
    'schema',
    'runner',
    'screens',
    'client',
  ],
  ...[
    'features/people',
    'features/backups',
    'features/bounded',
    'features/memory',
    'features/cut',
    'features/keys',
  ],
  ...['definition/hostile', 'structure/engine-alone', 'database', 'compile/names'],
];
/** What has a process to itself: it measures memory and time, changes what all files see, or leaves timers behind. */
const alone = [
  ...[
    'faults',
    'runner',
    'structure',
    'definition',
    'cli/backup',
    'cli/doctor',
    'cli/memory',
    'cli/packed',
    'settings',
    'properties/fuzz',
    'properties/once',
    'webhooks/inbox',
    'webhooks/inbox-fairness',
    'webhooks/simulate',
  ],
  ...['features/bounded', 'features/memory', 'features/bodies', 'features/cut', 'features/cursor-cost'],
  'features/people/passwords',
];
/** Files of a kind that share a process: what they import is loaded, compiled and warm once. */
const together = 16;

const names = process.argv.slice(2);
const fast = names[0] === '--fast';
const isIn = (file: string) => (name: string) =>
  file.startsWith(`test/${name}/`) || file === `test/${name}.test.ts`;
const rank = (file: string) => (longest.findIndex(isIn(file)) + longest.length + 1) % (longest.length + 1);
const all = globSync('test/**/*.test.ts', { exclude: ['test/clients/**'] })
  .sort()
  .sort((a, b) => rank(a) - rank(b));
const named = names.slice(fast ? 1 : 0);
const files = named.length > 0 ? named : all.filter((file) => !(fast && slow.some(isIn(file))));

process.env.NODE_COMPILE_CACHE ??= join(tmpdir(), 'crm-compiled');
const folder = temporary();
process.env.TMPDIR = folder;
const templates = join(folder, 'templates');
mkdirSync(templates);
process.env.TEST_TEMPLATES = templates;
if (fast) process.env.TEST_DRIVERS = 'postgresql';
const given = process.env.TEST_POSTGRES_URL;
const [server] = await Promise.all([given === undefined ? startPostgres() : undefined, clusterFolder()]);
if (server !== undefined) process.env.TEST_POSTGRES_URL = server.url;

/** What all files write into: in memory where there is much of it, for each database is a copy of six hundred files. */
function temporary(): string {
  const memory = '/dev/shm';
  const isRoomy = () => {
    const { bavail, bsize } = statfsSync(memory);
    const mounted = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .findLast((line) => line.split(' ')[1] === memory);
    return bavail * bsize > 8 * 2 ** 30 && !/\bnoexec\b/.test(mounted ?? 'noexec');
  };
  const made = mkdtempSync(join(existsSync(memory) && isRoomy() ? memory : tmpdir(), 'crm-tests-'));
  // Also for the user that runs PostgreSQL.
  chmodSync(made, 0o755);
  return made;
}

const counts = { passed: 0, failed: 0, skipped: 0 };
/** Skipped tests prove nothing: on CI they are failures, except for what a machine cannot permit. */
const mayNotSkip = (reason: string | boolean) =>
  process.env.CI === 'true' && !/^not permitted/.test(String(reason));

/** Files that each process runs, one after another. */
function groups(): string[][] {
  const made: string[][] = [];
  const open = new Map<number, string[]>();
  for (const file of files) {
    const last = open.get(rank(file));
    if (alone.some(isIn(file))) made.push([file]);
    else if (last !== undefined && last.length < together) last.push(file);
    else {
      const group = [file];
      made.push(group);
      open.set(rank(file), group);
    }
  }
  return made;
}

/** The file that a process runs for a group. */
function entryOf(group: readonly string[], index: number): string {
  const [file = '', ...more] = group.map((name) => resolve(name));
  if (more.length === 0) return file;
  const entry = join(templates, `group-${index}.test.mjs`);
  const imports = [file, ...more].map((each) => `import ${JSON.stringify(pathToFileURL(each))};\n`);
  writeFileSync(entry, imports.join(''));
  return entry;
}

const tests = run({
  files: groups().map(entryOf),
  execArgv: ['--import', new URL('support/low-cost.ts', import.meta.url).href],
  // Two more than there are cores, for many tests wait for other processes; with three, only more CPU time is used.
  concurrency: availableParallelism() + 2,
  // For what hangs: a busy machine may need minutes for what takes seconds.
  timeout: 1_200_000,
});
/** Suites with their seconds, for the last lines: what to look at when the whole takes too long. */
const times: [seconds: number, suite: string][] = [];
tests.on('test:pass', ({ name, details, skip, nesting }) => {
  if (nesting === 0) times.push([details.duration_ms / 1000, name]);
  // A suite that is skipped has no tests to speak for it.
  if (details.type === 'suite' && skip === undefined) return;
  counts[skip === undefined ? 'passed' : 'skipped']++;
  if (skip !== undefined && mayNotSkip(skip)) {
    process.stderr.write(`\n*** SKIPPED, and CI=true forbids that: ${name} (${skip}) ***\n`);
    counts.failed++;
  }
});
tests.on('test:fail', ({ details }) => {
  if (details.type !== 'suite') counts.failed++;
});
let success = false;
// Of the whole run, not of a file: false also where no test failed but what comes before or after them.
tests.on('test:summary', ({ file, success: so }) => {
  if (file === undefined) success = so;
});
for await (const text of tests.compose(new spec())) process.stdout.write(text);

await server?.stop();
// Only all tests together see everything that the API's description says.
if (named.length === 0 && !fast) {
  const missing = unseen(templates);
  counts.failed += missing.length;
  for (const response of missing)
    process.stderr.write(`*** The API's description has what no test saw: ${response}\n`);
}
rmSync(folder, { recursive: true, force: true });
const { passed, skipped } = counts;
const failed = success ? counts.failed : Math.max(1, counts.failed);
if (named.length === 0) {
  const longestFirst = times.sort(([a], [b]) => b - a).slice(0, 10);
  process.stdout.write(longestFirst.map(([seconds, name]) => `${seconds.toFixed(1)} s  ${name}\n`).join(''));
}
process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
// No test at all is a mistake, not a success.
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
