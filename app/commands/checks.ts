import { statSync } from 'node:fs';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { stateOf } from '../../engine/schema/index.ts';
import { type SettingsFile, unsetVariables } from '../../webhooks/settings/index.ts';
import type { Config } from '../config.ts';
import type { DoctorTarget, ModuleList } from '../services.ts';
import { misspellingWarnings, secretsInFile } from './config-command.ts';

const variables: DoctorCheck<Pick<DoctorTarget, 'config' | 'settingsFile'>> = {
  name: 'variable names',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) =>
    misspellingWarnings(config, settingsFile).map((line): Finding => {
      const [location = '', message = ''] = line.split(/ (.*)/s);
      return { location, message, advice: 'Correct the name, or remove the variable from the environment.' };
    }),
};

const unsetReferences: DoctorCheck<Pick<DoctorTarget, 'config' | 'settingsFile'>> = {
  name: 'variables in config.yaml',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) =>
    unsetVariables(settingsFile, config.environment).map(
      ({ file, line, column, message }): Finding => ({
        location: `${file}:${line}:${column}`,
        message,
        advice: "Set the variable in the server's environment, or put the value in the file.",
      }),
    ),
};

const settingsPermissions: DoctorCheck<Pick<DoctorTarget, 'config' | 'settingsFile'>> = {
  name: 'permissions of config.yaml',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) => settingsPermissionFindings(config, settingsFile),
};

function settingsPermissionFindings({ settingsFile: path }: Config, file: SettingsFile): readonly Finding[] {
  const mode = statSync(path).mode & 0o777;
  if (process.platform === 'win32') return [];
  const location = file.parsed.file;
  if ((mode & 0o002) !== 0) {
    const message =
      'any user on this machine can change it and thereby decide which clients can write records';
    return [{ location, message, advice: `Restrict access: chmod o-w ${path}` }];
  }
  const [secret] = secretsInFile(file);
  if (secret === undefined || (mode & 0o004) === 0) return [];
  const message = `any user on this machine can read its secrets, for example ${secret.name}`;
  const advice = `Restrict access: chmod o= ${path}, or move the secrets to the environment: \${NAME}`;
  return [{ location: secret.location, message, advice }];
}

const readOnly: DoctorCheck<Pick<DoctorTarget, 'settings'>> = {
  name: 'read-only mode',
  needs: ['settings'],
  run: ({ settings }) =>
    settings.read_only
      ? [
          {
            location: 'read_only of config.yaml',
            message: 'every write is rejected with 503, and background work is paused',
            advice: 'Set it to false after the maintenance. The running server applies it immediately.',
            isNote: true,
          },
        ]
      : [],
};

const migrations: DoctorCheck<Pick<DoctorTarget, 'config' | 'database'>> = {
  name: 'migrations',
  needs: ['config', 'database'],
  run: async ({ config, database }) => {
    const { pending, unfinished, problems, drift } = await stateOf(database, config);
    const finding = (message: string, advice: string): Finding => ({
      location: 'migrations',
      message,
      advice,
    });
    return [
      ...pending.map((name) =>
        finding(`${name} is pending`, 'Run "crm migrate". "crm plan" shows what it will do.'),
      ),
      ...unfinished.map((text) => {
        const [message = '', advice = ''] = text.split(/\. (.*)/s);
        return finding(message, advice);
      }),
      ...problems.map((message) =>
        finding(message, 'Run the version that migrated the database, or a newer one.'),
      ),
      ...drift.map((line) =>
        finding(
          `a table differs from the migrations: ${line}`,
          'Undo the manual change. "crm migrate --status" lists the differences.',
        ),
      ),
    ];
  },
};

/** Returns all `crm doctor` checks. */
export const checksOf = ({ modules }: ModuleList): readonly DoctorCheck<DoctorTarget>[] => [
  variables,
  unsetReferences,
  settingsPermissions,
  readOnly,
  migrations,
  ...modules.flatMap(({ checks: moduleChecks = [] }) => moduleChecks),
];
