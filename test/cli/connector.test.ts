// `crm connector n8n`: writes a package, and updates it without changing the files that users edit.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { temporaryFolder } from '../support/instance.ts';
import { crm } from '../support/process.ts';

describe('crm connector n8n', () => {
  const temporary = temporaryFolder();
  after(() => temporary.remove());
  // An unreachable database, because the command must not need one.
  const nowhere = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing' };
  const connector = (...options: readonly string[]) =>
    crm(['connector', 'n8n', ...options], nowhere, { cwd: temporary.path });
  const path = (...names: readonly string[]) => join(temporary.path, ...names);
  const read = (...names: readonly string[]) => readFileSync(path(...names), 'utf8');

  test('writes the package to a folder named after it, without placeholders', async () => {
    const { code, stdout, stderr } = await connector('--name', 'Acme CRM');
    assert.equal(code, 0, stderr);
    assert.match(stdout, /Wrote a package for n8n to n8n-nodes-acme-crm\./);
    const folder = 'n8n-nodes-acme-crm';
    const { n8n } = JSON.parse(read(folder, 'package.json')) as { readonly n8n: Record<string, string[]> };
    for (const file of [...(n8n.nodes ?? []), ...(n8n.credentials ?? [])])
      assert.ok(existsSync(path(folder, file)), file);
    for (const file of readdirSync(path(folder), { recursive: true, withFileTypes: true }))
      if (file.isFile())
        assert.doesNotMatch(
          readFileSync(join(file.parentPath, file.name), 'utf8'),
          /\$(Name|name|title|package)/,
        );
  });

  test('updates the nodes, but not package.json and README.md', async () => {
    const folder = 'own';
    assert.equal((await connector('--output', folder)).code, 0);
    const manifest = `${read(folder, 'package.json').replace('"0.1.0"', '"1.2.3"')}\n`;
    const api = 'dist/nodes/Crm/api.js';
    const text = read(folder, api);
    writeFileSync(path(folder, 'package.json'), manifest);
    writeFileSync(path(folder, 'README.md'), 'Our nodes.');
    writeFileSync(path(folder, api), '');
    assert.equal((await connector('--output', folder)).code, 0);
    assert.equal(read(folder, 'package.json'), manifest);
    assert.equal(read(folder, 'README.md'), 'Our nodes.');
    assert.equal(read(folder, api), text);
  });

  test('rejects folders with other files, packages with other nodes, and invalid names', async () => {
    mkdirSync(path('full'));
    writeFileSync(path('full', 'notes.txt'), '');
    assert.match((await connector('--output', 'full')).stderr, /does not contain a package for n8n/);
    assert.equal((await connector('--output', 'first')).code, 0);
    const renamed = await connector('--name', 'Other', '--output', 'first');
    assert.notEqual(renamed.code, 0);
    assert.match(renamed.stderr, /generated with another --name/);
    assert.ok(!existsSync(path('first', 'dist/nodes/Other')));
    writeFileSync(path('full', 'package.json'), 'not JSON');
    assert.match((await connector('--output', 'full')).stderr, /contains another package/);
    assert.match((await connector('--name', '../x')).stderr, /--name must start with a letter/);
  });
});
