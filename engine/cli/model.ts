import { partnerNeeds } from '../../webhooks/needs.ts';
import { readSettings } from '../../webhooks/settings/index.ts';
import { fragments, loadResources, version } from '../app.ts';
import type { Resource } from '../compile/index.ts';
import { readConfig } from '../config.ts';
import { checkNeeds } from '../definition/index.ts';
import { openApiDocument } from '../routes/openapi.ts';
import { assertMigrationsComplete, createMigration, migrate } from '../schema/index.ts';
import type { Result } from './context.ts';

/** `check`: definitions and configuration, without a database. */
export async function check(): Promise<Result> {
  const config = readConfig();
  const resources = await loadResources(config);
  checkPartners(resources);
  await assertMigrationsComplete(config, resources);
  const { partners } = await readSettings(config);
  const names = resources.map((resource) => resource.name);
  const payments = Object.keys(partners.payments);
  return {
    json: { ok: true, resources: names, payments },
    text: `${names.length} resources are right, and migrations carry all of them: ${names.join(', ')}\n${config.settingsFile} is right.`,
  };
}

/** Partner endpoints and channels write some fields by name: without them they would fail when they are called. */
const checkPartners = (resources: readonly Resource[]): void =>
  checkNeeds(
    resources.map(({ definition }) => definition),
    partnerNeeds,
  );

/** `openapi`: the description that GET /docs/openapi.json serves. */
export async function openApi(): Promise<Result> {
  const document = openApiDocument(fragments(await loadResources(readConfig())), version);
  return { json: document, text: JSON.stringify(document, null, 2) };
}

/** `migrate`: applies migrations, or with `--create` writes one. */
export async function migrateCommand(options: {
  create?: string | undefined;
  allowDataLoss?: true | undefined;
}): Promise<Result> {
  const config = readConfig();
  const resources = await loadResources(config);
  if (options.create === undefined) {
    await assertMigrationsComplete(config, resources);
    const applied = await migrate(config, resources);
    return {
      json: { applied },
      text: applied.length === 0 ? 'The database has every migration.' : `Applied ${applied.join(', ')}.`,
    };
  }
  checkPartners(resources);
  const { file, statements } = await createMigration(
    config,
    resources,
    options.create,
    options.allowDataLoss === true,
  );
  return {
    json: { file: file ?? null, statements },
    text:
      file === undefined
        ? 'The definitions have no change since the last migration.'
        : `Wrote ${file}:\n${statements.map((statement) => `  ${statement}`).join('\n')}\nReview it, then run "npm run crm -- migrate".`,
  };
}
