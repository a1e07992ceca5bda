import type { Environment } from '../../engine/config/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { DoctorCheck, Finding } from '../../engine/modules/index.ts';
import { organizationSlugs, tablesOf } from '../../engine/tables/index.ts';
import { disabledEndpoints, type SettingsFile, unknownOrganizations } from '../settings/index.ts';
import { partnerStatus } from './status.ts';

/** Reports endpoints without a secret. Endpoints in the default config.yaml are reported only as notes. */
export const disabledCheck: DoctorCheck<{
  readonly config: { readonly environment: Environment };
  readonly settingsFile: SettingsFile;
}> = {
  name: 'partner endpoints',
  needs: ['config', 'settingsFile'],
  run: ({ config, settingsFile }) =>
    disabledEndpoints(settingsFile, config.environment).map(
      ({ file, line, column, message, isShipped }): Finding => ({
        location: `${file}:${line}:${column}`,
        message: message,
        advice: isShipped
          ? 'Set the variable if a partner needs this endpoint. Otherwise, no action is needed.'
          : 'Set the variable, or remove the entry from config.yaml.',
        ...(isShipped && { isNote: true }),
      }),
    ),
};

/** Reports endpoints that have a secret but cannot work, and references to unknown organizations. */
export const misconfiguredCheck: DoctorCheck<{
  readonly settingsFile: SettingsFile;
  readonly database: Database;
}> = {
  name: 'partner organizations',
  needs: ['settingsFile', 'database'],
  run: async ({ settingsFile, database }) => {
    const tables = tablesOf(database);
    const slugs = await organizationSlugs(tables);
    const unknownFindings = unknownOrganizations(settingsFile, slugs).map(
      ({ file, line, column, message }): Finding => ({
        location: `${file}:${line}:${column}`,
        message: message,
        advice: 'Correct the slug, or create the organization with "crm org create".',
      }),
    );
    const status = await partnerStatus(tables, settingsFile.settings);
    const misconfigured = status.filter(
      ({ state, organization }) =>
        state === 'misconfigured' && (organization === null || slugs.includes(organization)),
    );
    return [
      ...unknownFindings,
      ...misconfigured.map(
        ({ name, path, problem }): Finding => ({
          location: `${name} of ${settingsFile.parsed.file}`,
          message: `POST ${path} cannot work: ${problem?.('en')}`,
          advice: 'Correct config.yaml. The running server reloads it automatically.',
        }),
      ),
    ];
  },
};
