// Runs the tests with one PostgreSQL server (or TEST_POSTGRES_URL) and one set of database templates. Each process
// runs a few files.
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
import { bundleCommandLine } from './support/bundle.ts';
import { cpuTimes } from './support/cpu-time.ts';
import { startPostgres } from './support/postgres.ts';
import { clusterFolder } from './support/templates.ts';
import { unseen } from './support/unseen.ts';

/**
 * Longest tests first, so that no core is idle at the end. Browser tests, which need a whole core, run alongside the
 * fault tests, which mostly wait.
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
  'description',
  'screens',
  'features',
];
/** Tests that `--fast` skips: tests with other processes, browsers, random input, waits and floods. */
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
/**
 * Files that need their own process because they measure memory and time, change global state, or leave timers
 * behind.
 */
const alone = [
  ...[
    'faults',
    'runner',
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
  'features/access/passwords',
];
/** Maximum number of similar files per process. They share loaded, compiled and warm modules. */
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
const cpuTimesFile = join(folder, 'cpu-times');
process.env.TEST_CPU_TIMES = cpuTimesFile;
if (fast) process.env.TEST_DRIVERS = 'postgresql';
const given = process.env.TEST_POSTGRES_URL;
const [server, commandLine] = await Promise.all([
  given === undefined ? startPostgres() : undefined,
  bundleCommandLine(join(folder, 'command-line')),
  clusterFolder(),
]);
process.env.TEST_COMMAND_LINE = commandLine;
if (server !== undefined) process.env.TEST_POSTGRES_URL = server.url;

/**
 * Creates the folder for all files' output. The folder is in memory if there is enough of it, because each
 * database is a copy of six hundred files.
 */
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
  // The user that runs PostgreSQL needs access too.
  chmodSync(made, 0o755);
  return made;
}

const counts = { passed: 0, failed: 0, skipped: 0 };
/**
 * Returns whether a skipped test counts as a failure. This is the case on CI, unless the machine does not
 * permit the test.
 */
const mayNotSkip = (reason: string | boolean) =>
  process.env.CI === 'true' && !/^not permitted/.test(String(reason));

/** Returns the files that each process runs one after another. */
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

/** Returns the entry file for a group's process. */
function entryOf(group: readonly string[], index: number): string {
  const [file = '', ...more] = group.map((name) => resolve(name));
  if (more.length === 0) return file;
  const entry = join(templates, `group-${index}.test.mjs`);
  const imports = [file, ...more].map((each) => `import ${JSON.stringify(pathToFileURL(each))};\n`);
  writeFileSync(entry, imports.join(''));
  return entry;
}

/** Describes the CPU time of all test processes, and of the files that use the most. */
function costliest(): string {
  const times = cpuTimes(cpuTimesFile).map(({ file, seconds }) => {
    const [first = file, ...more] = grouped[entries.indexOf(file)] ?? [];
    return { name: more.length === 0 ? first : `${first} and ${more.length} more`, seconds };
  });
  const total = times.reduce((sum, { seconds }) => sum + seconds, 0);
  const lines = times
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, 25)
    .map(({ name, seconds }) => `${seconds.toFixed(1)} s of CPU time  ${name}\n`);
  return `${lines.join('')}${total.toFixed(0)} s of CPU time in all test processes\n`;
}

const grouped = groups();
const entries = grouped.map(entryOf);
const tests = run({
  files: entries,
  execArgv: [
    import.meta.resolve('tsx'),
    ...['native-modules', 'low-cost', 'cpu-time'].map(
      (name) => new URL(`support/${name}.ts`, import.meta.url).href,
    ),
  ].flatMap((module) => ['--import', module]),
  // One more than the number of cores, because many tests wait for other processes. On two cores, a second additional
  // process makes all tests use a sixth more CPU time.
  concurrency: availableParallelism() + 1,
  // Detects hangs. On a busy machine, work that usually takes seconds can take minutes.
  timeout: 1_200_000,
});
tests.on('test:pass', ({ name, details, skip }) => {
  // A skipped suite does not have tests that could be counted.
  if (details.type === 'suite' && skip === undefined) return;
  counts[skip === undefined ? 'passed' : 'skipped']++;
  if (skip !== undefined && mayNotSkip(skip)) {
    process.stderr.write(`\n*** SKIPPED, which CI=true does not allow: ${name} (${skip}) ***\n`);
    counts.failed++;
  }
});
tests.on('test:fail', ({ details }) => {
  if (details.type !== 'suite') counts.failed++;
});
let success = false;
// The summary of the whole run. It also fails if only a hook outside the tests failed.
tests.on('test:summary', ({ file, success: so }) => {
  if (file === undefined) success = so;
});
for await (const text of tests.compose(new spec())) process.stdout.write(text);

await server?.stop();
// Only a complete run covers the whole API description.
if (named.length === 0 && !fast) {
  const missing = unseen(templates);
  counts.failed += missing.length;
  for (const response of missing)
    process.stderr.write(`*** Described in the API, but not received by any test: ${response}\n`);
}
const costs = costliest();
rmSync(folder, { recursive: true, force: true });
const { passed, skipped } = counts;
const failed = success ? counts.failed : Math.max(1, counts.failed);
if (named.length === 0) process.stdout.write(costs);
process.stdout.write(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
// A run without tests is a failure.
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
