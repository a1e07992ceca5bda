// The engine as its users run it: key authentication, permission check, activity (AUDIT), one process.
import { build, loadResources } from '../../engine/app.ts';
import { readConfig } from '../../engine/config.ts';
import { openDatabase } from '../../engine/database/index.ts';
import { model } from '../../engine/schema/index.ts';
import { listening } from './listening.ts';

const config = readConfig();
const resources = await loadResources(config);
const database = await openDatabase(config, model(resources));
listening(await build(config, resources, database));
