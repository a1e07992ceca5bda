import type { Environment } from '../../engine/config/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { organizationSlugs, tablesOf } from '../../engine/tables/index.ts';
import { disabledEndpoints, type SettingsFile, unknownOrganizations } from '../settings/index.ts';
import { partnerStatus } from './status.ts';

/** Endpoints that are off. Those of the shipped file may be meant so; a payment hook was written by somebody. */
export const offCheck: DoctorCheck<{
  readonly config: { readonly environment: Environment };
  readonly settingsFile: SettingsFile;
}> = {
  name: 'partner endpoints',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) =>
    disabledEndpoints(settingsFile, config.environment).map(
      ({ file, line, column, message, isShipped }): Finding => ({
        place: `${file}:${line}:${column}`,
        problem: message,
        advice: isShipped
          ? 'Set the variable if a partner is to call it; otherwise nothing needs to be done.'
          : 'Set the variable, or take the entry out if nobody is to call it.',
        ...(isShipped && { isNote: true }),
      }),
    ),
};

/** Endpoints that have a secret and cannot work, and organizations that there are not. */
export const misconfiguredCheck: DoctorCheck<{
  readonly settingsFile: SettingsFile;
  readonly database: Database;
}> = {
  name: 'organizations of partners',
  needs: ['settingsFile', 'database'],
  run: async ({ settingsFile, database }) => {
    const tables = tablesOf(database);
    const known = await organizationSlugs(tables);
    const unknown = unknownOrganizations(settingsFile, known).map(
      ({ file, line, column, message }): Finding => ({
        place: `${file}:${line}:${column}`,
        problem: message,
        advice: 'Correct the name, or make the organization: crm org create',
      }),
    );
    const status = await partnerStatus(tables, settingsFile.settings);
    const wrong = status.filter(
      ({ state, organization }) =>
        state === 'misconfigured' && (organization === null || known.includes(organization)),
    );
    return [
      ...unknown,
      ...wrong.map(
        ({ name, path, problem }): Finding => ({
          place: `${name} of ${settingsFile.parsed.file}`,
          problem: `POST ${path} cannot work: ${problem}`,
          advice: 'Correct config.yaml; the running server takes it over at once.',
        }),
      ),
    ];
  },
};
