import {
  type CommandLine,
  type CommandResult,
  type Finding,
  jsonResult,
} from '../../engine/modules/index.ts';
import type { Instance } from '../services.ts';
import { type DoctorReport, runDoctor } from './doctor.ts';

/** Adds the `doctor` command. */
export function doctorCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('doctor')
    .description('find problems with this instance and suggest fixes')
    .addOption(jsonResult())
    .action(({ json }) => run(json, doctor()));
}

/** Runs the checks. Sets exit code 1 if they find a problem. */
async function doctor(): Promise<CommandResult> {
  const report = await runDoctor();
  const { findings, skipped, checkCount } = report;
  const notes = findings.filter(({ isNote }) => isNote === true);
  const problems = findings.filter(({ isNote }) => isNote !== true);
  if (problems.length > 0) process.exitCode = 1;
  const jsonOf = ({ check, location, message, advice }: DoctorReport['findings'][number]) => ({
    check,
    place: location,
    problem: message,
    advice,
  });
  const reasons = new Map<string, string[]>();
  for (const { check, reason } of skipped) reasons.set(reason, [...(reasons.get(reason) ?? []), check]);
  return {
    json: {
      ok: problems.length === 0,
      wrong: problems.map(jsonOf),
      notes: notes.map(jsonOf),
      skipped,
      checks: checkCount,
    },
    text: [
      ...problems.map((finding) => formatFinding('wrong', finding)),
      ...notes.map((finding) => formatFinding('note', finding)),
      ...[...reasons].map(([reason, names]) => `skipped  ${names.join(', ')}\n         ${reason}`),
      `${problems.length === 0 ? 'No problems found' : `${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}`}: ${checkCount} checks, ${notes.length} ${notes.length === 1 ? 'note' : 'notes'}, ${skipped.length} skipped.`,
    ].join('\n'),
  };
}

/** Formats a finding as two lines. */
const formatFinding = (kind: string, { location, message, advice }: Finding): string =>
  `${kind.padEnd(9)}${location}: ${message}\n         ${advice}`;
