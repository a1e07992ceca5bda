// Builds dist/, which the packed package runs: the source as JavaScript, and what else an instance reads.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const project = fileURLToPath(new URL('..', import.meta.url));
const built = join(project, 'dist');
const floors = ['app', 'engine', 'plugins', 'webhooks', 'migrations'];
const others = ['resources', 'samples', 'config.yaml', 'package.json'];

rmSync(built, { recursive: true, force: true });
execFileSync(
  process.execPath,
  [join(project, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.build.json'],
  {
    cwd: project,
    stdio: 'inherit',
  },
);
for (const name of [...floors, ...others]) {
  const filter = (path) => !path.endsWith('.ts');
  cpSync(join(project, name), join(built, name), { recursive: true, filter });
}

// What only development needs Scalar for.
const explorer = join(built, 'plugins/explorer');
const { renderApart } = await import(join(explorer, 'scalar.js'));
const { page, script } = await renderApart();
mkdirSync(join(explorer, 'rendered'));
writeFileSync(join(explorer, 'rendered/page.html'), page);
writeFileSync(join(explorer, 'rendered/scalar.js'), script);
