import { flagVariable } from '../config/index.ts';
import type { Effect } from './effect.ts';

/** Updates the organization's row whenever a record is created. */
export const touch: Effect = {
  variable: flagVariable('TOUCH', false),
  tables: [],
  on: ['create'],
  expression: ({ written, source, row }) =>
    `${written}_touch as (update "crm_organizations" o set "name" = o."name" from ${source} where o."id" = ${row}."organization_id")`,
};
