// Builds the files of the packed package: the compiled source and all other files that an instance reads.
// Argument: the output folder, dist by default.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const output = process.argv[2] ?? join(project, 'dist');
const sourceFolders = ['app', 'engine', 'plugins', 'webhooks', 'migrations'];
const otherFiles = ['resources', 'samples', 'templates', 'config.yaml', 'package.json'];

rmSync(output, { recursive: true, force: true });
const compiler = join(project, 'node_modules/typescript/bin/tsc');
const options = ['-p', 'tsconfig.build.json', '--outDir', output];
const compilation = spawnSync(process.execPath, [compiler, ...options], { cwd: project, encoding: 'utf8' });
if (compilation.status !== 0) throw new Error(compilation.stdout || compilation.stderr);
for (const name of [...sourceFolders, ...otherFiles]) {
  const filter = (path) => !path.endsWith('.ts');
  cpSync(join(project, name), join(output, name), { recursive: true, filter });
}

// `crm client` copies the client's TypeScript source.
const isSource = (path) => !/client\/(dist|node_modules)/.test(path);
cpSync(join(project, 'client'), join(output, 'client'), { recursive: true, filter: isSource });

// With this archive, the first start does not run initdb. In a clone, `npm ci` has already created the
// archive, so it was copied above.
const archive = join(output, 'engine/database/cluster.tar.gz');
const archiveScript = join(project, 'bin/cluster.js');
if (!existsSync(archive)) execFileSync(process.execPath, [archiveScript, archive], { stdio: 'inherit' });
