// The engine as it usually runs: one process with API keys, permission checks and the change log (AUDIT).

import { loadConfig } from '../../app/config.ts';
import { entitiesFor } from '../../app/instance.ts';
import { buildService, loadResources } from '../../app/serve/build.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { instanceSecrets } from '../../plugins/access/secrets/instance-secrets.ts';
import { listenAndReport } from './listening.ts';

const config = await loadConfig();
const resources = await loadResources(config);
const database = await openDatabase(config, entitiesFor(resources, config));
listenAndReport(await buildService({ config, resources, database, secrets: instanceSecrets(config) }));
