import type { Server } from '@modelcontextprotocol/server';
import { documentText } from '../../../engine/fields/index.ts';
import type { Body } from '../../../engine/records/index.ts';
import type { ToolResult } from './tool.ts';

/** Calls a tool by its name. Returns undefined if the call fails. */
export type Use = (tool: 'describe' | 'get', input: Body) => Promise<ToolResult | undefined>;

/** Media type of the contents. */
const mimeType = 'application/json';

/** URIs of records and of the definitions of resources: `crm://leads/1` and `crm://leads`. */
const uriPattern = /^crm:\/\/([a-z][a-z0-9_]*)(?:\/([1-9]\d{0,18}))?$/;

/** The templates of URIs that clients can read, in addition to the listed ones. */
const resourceTemplates = [
  {
    uriTemplate: 'crm://{resource}/{id}',
    name: 'record',
    description: 'A record, as the tool get returns it.',
    mimeType,
  },
];

/** Returns the definitions that a caller can read, one for each resource of the instance. */
async function listDefinitions(use: Use) {
  const result = await use('describe', {});
  const all = (result?.resources ?? []) as readonly { readonly name: string; readonly description: string }[];
  return all.map(({ name, description }) => ({ uri: `crm://${name}`, name, description, mimeType }));
}

/**
 * Reads a definition or a record, with the tools and therefore with the caller's grants.
 * @returns undefined if the URI is not known, or the caller cannot read the definition or the record
 */
async function readUri(uri: string, use: Use): Promise<ToolResult | undefined> {
  const [, resource, id] = uriPattern.exec(uri) ?? [];
  if (resource === undefined) return undefined;
  if (id === undefined) return use('describe', { resource });
  return (await use('get', { resource, id }))?.record as ToolResult | undefined;
}

/** Adds the resources of the protocol: definitions and records, read with the tools. */
export function addResources(
  { ResourceNotFoundError }: Pick<typeof import('@modelcontextprotocol/server'), 'ResourceNotFoundError'>,
  server: Server,
  use: Use,
): void {
  server.setRequestHandler('resources/list', async () => ({ resources: await listDefinitions(use) }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates }));
  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const content = await readUri(uri, use);
    if (content === undefined) throw new ResourceNotFoundError(uri);
    return { contents: [{ uri, mimeType, text: documentText(content) }] };
  });
}
