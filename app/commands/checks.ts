import { statSync } from 'node:fs';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { stateOf } from '../../engine/schema/index.ts';
import { type SettingsFile, unsetVariables } from '../../webhooks/settings/index.ts';
import type { Config } from '../config.ts';
import { modules } from '../modules.ts';
import type { DoctorTarget } from '../services.ts';
import { misspellingWarnings, secretsInFile } from './config-command.ts';

const variables: DoctorCheck<Pick<DoctorTarget, 'config' | 'settingsFile'>> = {
  name: 'names of variables',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) =>
    misspellingWarnings(config, settingsFile).map((line): Finding => {
      const [place = '', problem = ''] = line.split(/ (.*)/s);
      return { place, problem, advice: 'Correct the name, or take the variable out of the environment.' };
    }),
};

const unset: DoctorCheck<Pick<DoctorTarget, 'config' | 'settingsFile'>> = {
  name: 'variables of config.yaml',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) =>
    unsetVariables(settingsFile, config.environment).map(
      ({ file, line, column, message }): Finding => ({
        place: `${file}:${line}:${column}`,
        problem: message,
        advice: 'Set it where the server is started, or write the value into the file.',
      }),
    ),
};

const settingsRights: DoctorCheck<Pick<DoctorTarget, 'config' | 'settingsFile'>> = {
  name: 'rights of config.yaml',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) => rightsOf(config, settingsFile),
};

function rightsOf({ settingsFile: path }: Config, file: SettingsFile): readonly Finding[] {
  const mode = statSync(path).mode & 0o777;
  if (process.platform === 'win32') return [];
  const place = file.parsed.file;
  if ((mode & 0o002) !== 0) {
    const problem = 'every user of this machine may change it, and with it who may write records';
    return [{ place, problem, advice: `Close it: chmod o-w ${path}` }];
  }
  const [first] = secretsInFile(file);
  if (first === undefined || (mode & 0o004) === 0) return [];
  const problem = `every user of this machine may read the secrets in it, such as ${first.name}`;
  const advice = `Close it: chmod o= ${path}, or put secrets into the environment: \${NAME}`;
  return [{ place: first.place, problem, advice }];
}

const readOnly: DoctorCheck<Pick<DoctorTarget, 'settings'>> = {
  name: 'read-only mode',
  needs: ['settings'],
  run: ({ settings }) =>
    settings.read_only
      ? [
          {
            place: 'read_only of config.yaml',
            problem: 'every write is refused with 503, and background work pauses',
            advice: 'Set it to false once the maintenance is over; the running server takes it over at once.',
            isNote: true,
          },
        ]
      : [],
};

const migrations: DoctorCheck<Pick<DoctorTarget, 'config' | 'database'>> = {
  name: 'migrations',
  needs: ['config', 'database'],
  run: async ({ config, database }) => {
    const { pending, problems, drift } = await stateOf(database, config);
    const finding = (problem: string, advice: string): Finding => ({ place: 'migrations', problem, advice });
    return [
      ...pending.map((name) =>
        finding(`${name} is pending`, 'Run "crm migrate"; "crm plan" tells what it does.'),
      ),
      ...problems.map((problem) =>
        finding(problem, 'Run the version of the service that the database was migrated by, or a newer one.'),
      ),
      ...drift.map((line) =>
        finding(
          `a table is not as they made it: ${line}`,
          'Undo what was changed by hand: "crm migrate --status".',
        ),
      ),
    ];
  },
};

/** Everything that `crm doctor` looks at. */
export const checks: readonly DoctorCheck<DoctorTarget>[] = [
  variables,
  unset,
  settingsRights,
  readOnly,
  migrations,
  ...modules.flatMap(({ checks: own = [] }) => own),
];
