import type { Generated } from 'kysely';
import {
  booleanColumn,
  defineTable,
  identity,
  link,
  now,
  tenant,
  tenantLink,
  textColumn,
} from '../../../engine/tables/index.ts';

declare module '../../../engine/tables/index.ts' {
  interface TableRows {
    crm_saved_views: {
      organization_id: string;
      id: Generated<string>;
      /** The user who saved the view. */
      user_id: string;
      resource: string;
      name: string;
      /** The list's filters, search, order and columns, as a query string. */
      query: string;
      /** Whether all members of the organization can use the view. */
      is_shared: boolean;
      created_at: Generated<Date>;
    };
    crm_default_views: { organization_id: string; user_id: string; resource: string; view_id: string };
  }
}

const savedViews = defineTable(
  'crm_saved_views',
  {
    ...tenant(),
    id: identity,
    ...link('user_id', 'crm_users', { deleteRule: 'cascade' }),
    resource: textColumn,
    name: textColumn,
    query: textColumn,
    is_shared: booleanColumn,
    created_at: now,
  },
  {
    uniques: [
      {
        name: 'crm_saved_views_name',
        properties: ['organization_id_link', 'resource', 'user_id_link', 'name'],
      },
    ],
    indexes: [{ name: 'crm_saved_views_user', properties: ['user_id_link'] }],
    resourceColumns: ['resource'],
    // A view's filters and search can name a person.
    personalData: { label: 'saved views', columns: ['name', 'query'], erasure: 'delete' },
  },
);

const defaultViews = defineTable(
  'crm_default_views',
  {
    ...tenant(),
    ...link('user_id', 'crm_users', { primary: true, deleteRule: 'cascade' }),
    resource: { ...textColumn, primary: true },
    ...tenantLink('crm_default_views', 'view', 'crm_saved_views', {
      ownColumns: ['view_id'],
      deleteRule: 'cascade',
    }),
  },
  {
    indexes: [
      { name: 'crm_default_views_user', properties: ['user_id_link'] },
      { name: 'crm_default_views_view', properties: ['organization_id_link', 'view'] },
    ],
    resourceColumns: ['resource'],
  },
);

/** Saved views of lists, and the view with which each user's lists open. */
export const savedViewTables = [savedViews, defaultViews];
