import {
  type CommandLine,
  type CommandResult,
  type Finding,
  jsonResult,
} from '../../engine/modules/index.ts';
import type { Instance } from '../services.ts';
import { type DoctorReport, runDoctor } from './doctor.ts';

/** `doctor`. */
export function doctorCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('doctor')
    .description('find problems with this instance and suggest fixes')
    .addOption(jsonResult())
    .action(({ json }) => run(json, doctor()));
}

/** `doctor`: exit code 1 if something is wrong. */
async function doctor(): Promise<CommandResult> {
  const examination = await runDoctor();
  const { findings, skipped, made } = examination;
  const notes = findings.filter(({ isNote }) => isNote === true);
  const wrong = findings.filter(({ isNote }) => isNote !== true);
  if (wrong.length > 0) process.exitCode = 1;
  const shown = ({ check, place, problem, advice }: DoctorReport['findings'][number]) => ({
    check,
    place,
    problem,
    advice,
  });
  const reasons = new Map<string, string[]>();
  for (const { check, reason } of skipped) reasons.set(reason, [...(reasons.get(reason) ?? []), check]);
  return {
    json: {
      ok: wrong.length === 0,
      wrong: wrong.map(shown),
      notes: notes.map(shown),
      skipped,
      checks: made,
    },
    text: [
      ...wrong.map((finding) => lines('wrong', finding)),
      ...notes.map((finding) => lines('note', finding)),
      ...[...reasons].map(([reason, names]) => `skipped  ${names.join(', ')}\n         ${reason}`),
      `${wrong.length === 0 ? 'No problems found' : `${wrong.length} ${wrong.length === 1 ? 'problem' : 'problems'}`}: ${made} checks, ${notes.length} ${notes.length === 1 ? 'note' : 'notes'}, ${skipped.length} skipped.`,
    ].join('\n'),
  };
}

/** A finding in two lines. */
const lines = (kind: string, { place, problem, advice }: Finding): string =>
  `${kind.padEnd(9)}${place}: ${problem}\n         ${advice}`;
