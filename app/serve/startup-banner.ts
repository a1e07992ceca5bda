import type { Resource } from '../../engine/compile/index.ts';
import { apiPrefix } from '../../engine/http/index.ts';
import type { CommandResult } from '../../engine/modules/index.ts';
import type { Demo } from '../../plugins/operations/demo/index.ts';
import type { Config } from '../config.ts';

/** Properties of a listening service. */
interface StartupInfo {
  readonly url: string;
  readonly adminUrl: string | undefined;
  /** Name of a resource for the example request. */
  readonly example: string;
  /** The demo organization, if the database was empty. */
  readonly demo: Demo | undefined;
}

/** Returns the name of a resource to use in examples, preferably a resource with filters. */
export const exampleResource = (resources: readonly Resource[]): string =>
  (resources.find((resource) => resource.definition.filters.length > 0) ?? resources[0])?.name ?? '';

/** Returns the output of `serve`. */
export function startupBanner(config: Config, { url, adminUrl, example, demo }: StartupInfo): CommandResult {
  const isEmbedded = config.databaseAddress === undefined;
  const database = isEmbedded ? `the embedded database in ${config.dataFolder}` : 'PostgreSQL';
  const by = config.workers > 1 ? `, with ${config.workers} workers` : '';
  const lines = [`Serving ${url}, explorer at ${url}/docs, on ${database}${by}`];
  if (adminUrl !== undefined)
    lines.push(`Operators: ${adminUrl}/livez, ${adminUrl}/readyz and ${adminUrl}/metrics`);
  if (demo !== undefined) {
    lines.push(
      '',
      `This database was empty, so the organization "${demo.organization}" was created with sample records.`,
      'Store these credentials now. They will not be shown again:',
      `  setup     ${url}/setup`,
      `  login     ${demo.email}`,
      `  password  ${demo.password}`,
      `  API key   ${demo.key}`,
      '',
      'Try it:',
      `  curl -H 'Authorization: Bearer ${demo.key}' ${url}${apiPrefix}/${example}`,
    );
  }
  return {
    json: {
      url,
      ...(adminUrl && { admin: adminUrl }),
      database: isEmbedded ? 'embedded' : 'postgresql',
      ...(config.workers > 1 && { workers: config.workers }),
      ...demo,
    },
    text: lines.join('\n'),
  };
}
