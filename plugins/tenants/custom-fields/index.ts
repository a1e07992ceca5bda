// Custom fields: fields that administrators add to the records of their organization. May import engine, admin-ui/shell.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import { hasCustomFields } from '../../../engine/fields/index.ts';
import { type Module, startRetention } from '../../../engine/modules/index.ts';
import { customFieldTables } from '../../../engine/records/index.ts';
import { customFieldRoutes } from './api.ts';
import { customFieldsFragment } from './description.ts';
import { customFieldPages } from './page.ts';
import { purgeFields, purgeValues } from './retention.ts';

export { type CustomField, listCustomFields } from './custom-fields.ts';

/** Services used by custom fields. */
interface CustomFieldServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
}

const resourcesWithCustomFields = ({ resources }: CustomFieldServices): readonly Resource[] =>
  resources.filter(({ definition }) => hasCustomFields(definition));

/** Fields that administrators add to the records of their organization. */
export const customFieldsModule: Module<CustomFieldServices, CustomFieldServices> = {
  name: 'custom-fields',
  tables: customFieldTables,
  commands: async (line) => (await import('./commands.ts')).customFieldCommands(line),
  openApi: (definitions) => (definitions.some(hasCustomFields) ? customFieldsFragment : {}),
  pages: (screens, services) => {
    const resources = resourcesWithCustomFields(services);
    if (resources.length > 0) customFieldPages(screens, { ...services, resources });
  },
  register: (app, services) => {
    const resources = resourcesWithCustomFields(services);
    if (resources.length === 0) return;
    customFieldRoutes(app, { ...services, resources });
    startRetention(app, services.database, {
      label: 'values of deleted custom fields',
      steps: [...resources.map(purgeValues), purgeFields],
    });
  },
};
