// The engine as its users run it: key authentication, permission check, activity (AUDIT), one process.

import { build, loadResources } from '../../app/build.ts';
import { readConfig } from '../../app/config.ts';
import { entitiesFor } from '../../app/instance.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { instanceSecrets } from '../../plugins/secrets/instance-secrets.ts';
import { listening } from './listening.ts';

const config = readConfig();
const resources = await loadResources(config);
const database = await openDatabase(config, entitiesFor(resources));
listening(await build({ config, resources, database, secrets: instanceSecrets(config) }));
