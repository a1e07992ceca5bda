// Test support: a service with every kind of route, and the objects that its routes need: an administrator, custom fields,
// records, notes, saved views, proposals and the tools of agents.
import assert from 'node:assert/strict';
import type { ModuleCode } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/handle.ts';
import { sendMessage, useTool } from '../agents.ts';
import { publicUrl } from '../channels.ts';
import { type Driver, type Instance, type Organization, startInstance } from '../instance.ts';
import { settingsFile } from '../partners.ts';
import { entries, organization, variables } from '../payments.ts';
import { fresh } from '../people.ts';
import { type Administrator, openScreens, type Screens } from '../screens.ts';
import { sourcesWith } from '../sources.ts';
import { type Route, routesOf } from './routes.ts';

/** The partner endpoints' secrets, keyed by environment variable. */
export const partnerSecrets = {
  INBOUND_SECRET: 'the-secret-of-inbound-leads',
  BOOKING_FORMS_WHATSAPP_TOKEN: 'the-token-of-booking-forms',
};

/** A tool of agents and the schemas of its parameters. */
export interface AgentTool {
  readonly name: string;
  readonly parameters: Readonly<Record<string, { readonly type?: string }>>;
}

/** What is needed to reach the routes of a service. */
export interface Access {
  readonly instance: Instance;
  readonly screens: Screens;
  readonly acme: Organization;
  /** The administrator who opens the organization's pages. */
  readonly clerk: Administrator;
  /** The tools of agents. Empty if the service has none. */
  readonly tools: readonly AgentTool[];
  /** Creates a record and returns its ID. */
  readonly create: (resource: string) => Promise<string>;
  /** Creates the objects named in the pattern of a page and returns their IDs, by parameter. */
  readonly parametersOf: (pattern: string) => Promise<Readonly<Record<string, string>>>;
}

/** A running service with every kind of route. */
export interface World extends Access {
  readonly routes: readonly Route[];
  /** ID of the organization of the payments. */
  readonly shop: string;
}

/** Names of the custom fields of leads, by type. */
export const customFields: Readonly<Record<string, string>> = {
  plain: 'string',
  long: 'text',
  count: 'integer',
  day: 'date',
  agreed: 'boolean',
};

/** Number of custom fields that columns of imports contain. */
const columnCount = 12;
/** Names of the custom fields that columns of imports contain. */
export const customColumns: readonly string[] = Array.from(
  { length: columnCount },
  (_, index) => `column_${index}`,
);

/** The shipped resources, with custom fields, owners, children and a trash. */
const sources = (await sourcesWith()).map(({ file, text }) => {
  if (file.endsWith('leads.yaml')) {
    const fields = text.replace('\nfields:\n', '\nfields:\n  owner_id: { assignable: true }\n');
    return { file, text: `${fields}custom_fields: true\n` };
  }
  if (!file.endsWith('accounts.yaml')) return { file, text };
  const children = 'children: { people: { of: contacts, by: account_id, writable: true } }';
  return { file, text: `${text}trash: 30 days\n${children}\n` };
});

const input = {
  type: 'object',
  properties: {
    text: { type: 'string' },
    list: { type: 'array', items: { type: 'object', properties: { name: { type: 'string' } } } },
  },
} as const;

/** Actions of a record and of the collection. */
const modules: readonly ModuleCode[] = [
  {
    name: 'hostile',
    actions: {
      leads: {
        rate: { description: 'Rates a lead.', input, run: () => undefined },
        collect: { description: 'Collects leads.', ofCollection: true, input, run: () => undefined },
      },
    },
  },
];

/** Starts a service with every kind of route. @param settings additional settings */
export async function openWorld(driver: Driver, settings: object = {}): Promise<World> {
  const { environment } = settingsFile(
    {
      public_url: publicUrl,
      mcp: { registration: true },
      new_organizations: 'administrators',
      partners: {
        booking_forms_whatsapp: { secrets: ['${BOOKING_FORMS_WHATSAPP_TOKEN}'], organization: 'acme' },
        payments: entries,
      },
      messaging: { acme: { sender: 'log' } },
      ...settings,
    },
    // Each request of a client of OAuth comes from its own network, because networks are limited.
    { ...variables, ...partnerSecrets, TRUSTED_PROXIES: '1' },
  );
  const router = await routesOf(() => startInstance(driver, { environment, sources, modules }));
  const instance = router.built;
  const screens = await openScreens(instance);
  const { acme } = screens;
  const { id: shop } = await instance.organization(organization);
  const fields = { ...customFields, ...Object.fromEntries(customColumns.map((name) => [name, 'string'])) };
  for (const [name, type] of Object.entries(fields)) {
    const { status, text } = await instance.call('POST /fields/leads', {
      key: acme.key,
      body: { name, type },
    });
    assert.equal(status, 201, text);
  }
  const access = await accessTo(instance, screens, await toolsOf(instance, acme));
  return { ...access, routes: router.routes(instance.app), shop };
}

/** Creates what is needed to reach the routes of a service. */
export async function accessTo(
  instance: Instance,
  screens: Screens,
  tools: readonly AgentTool[] = [],
): Promise<Access> {
  const { acme } = screens;
  const clerk = await screens.administrator();
  const create = async (resource: string) => {
    const { status, json } = await instance.call(`POST /api/v1/${resource}`, { key: acme.key, body: {} });
    return status === 201 ? String(json.id) : '1';
  };
  const access = { instance, screens, acme, clerk, tools, create };
  return { ...access, parametersOf: pageParameters(access) };
}

/** Returns the tools that a service offers to agents. */
async function toolsOf(instance: Instance, { key }: Organization): Promise<AgentTool[]> {
  const { json } = await sendMessage(instance, key, { method: 'tools/list' });
  const { tools } = json.result as {
    tools: { name: string; inputSchema: { properties: AgentTool['parameters'] } }[];
  };
  return tools.map(({ name, inputSchema }) => ({ name, parameters: inputSchema.properties }));
}

/** Returns a function that creates the objects named in the pattern of a page. */
function pageParameters({
  instance,
  acme,
  clerk: { browser },
  tools,
  create,
}: Omit<Access, 'parametersOf'>): Access['parametersOf'] {
  const data = '/setup/o/acme/data';
  /** Submits a form that creates an object, and returns the object's ID. */
  const idAfter = async (
    table: 'crm_notes' | 'crm_saved_views',
    [page, action]: readonly [string, string],
    fields: Readonly<Record<string, string>>,
  ) => {
    const answer = await browser.submit(page, action, fields);
    assert.equal(answer.status, 303, answer.text);
    const rows = tablesOf(instance.database)
      .selectFrom(table)
      .select('id')
      .where('organization_id', '=', acme.id);
    return String((await rows.orderBy('id', 'desc').limit(1).executeTakeFirstOrThrow()).id);
  };
  const proposal = async () => {
    const { key } = await acme.makeKey({ access: 'propose' });
    const values = { last_name: 'Proposed' };
    const { proposal: made } = await useTool(instance, key, 'create', { resource: 'leads', values });
    return String((made as { readonly id: unknown }).id);
  };
  return async (pattern) => {
    const isTrash = /\/(?:restore|purge)$/.test(pattern);
    const resource = isTrash ? 'accounts' : 'leads';
    const id =
      tools.length > 0 && pattern.includes('/proposals/') ? await proposal() : await create(resource);
    const call = (request: string) => instance.call(request, { key: acme.key });
    if (isTrash) await call(`DELETE /api/v1/${resource}/${id}`);
    const page = `${data}/${resource}/${id}`;
    const views = `${data}/${resource}/views`;
    return {
      ...{ org: 'acme', resource, id, action: pattern.includes('/:id/') ? 'rate' : 'collect' },
      ...(pattern.includes(':note') && {
        note: await idAfter('crm_notes', [page, `${page}/notes`], { text: 'A note' }),
      }),
      ...(pattern.includes(':view') && {
        view: await idAfter('crm_saved_views', [`${views}/new?rating=Hot`, views], { name: fresh('view') }),
      }),
    };
  };
}
