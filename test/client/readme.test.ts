// Runs every code block of the client's README against an instance, with the packed and installed client.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { type Installed, install } from '../support/client-package.ts';
import { onBothDrivers } from '../support/instance.ts';
import { project } from '../support/process.ts';

const client = join(project, 'client');
const readme = readFileSync(join(client, 'README.md'), 'utf8');

/** Turns a page's code blocks into a program that checks the values after each arrow. */
function programOf(text: string): string {
  const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, block = '']) => block);
  const imports = blocks.flatMap((block) => block.match(/^import .*$/gm) ?? []);
  const [setup = '', ...rest] = blocks.map((block) =>
    block
      .replace(/^import .*\n\n?/gm, '')
      .replace(/^(\s*)(.+); \/\/ → (.+)$/gm, '$1check($2, $3);')
      .replace("'https://crm.example.com'", 'url')
      .replace("'crm_…'", 'key'),
  );
  const names = new Set(imports.flatMap((line) => /\{ (.+) \}/.exec(line)?.[1]?.split(', ') ?? []));
  return [
    `import { ${[...names].sort().join(', ')} } from '@crm-engine/client';`,
    'export async function run(url: string, key: string, check: (actual: unknown, expected: unknown) => void): Promise<void> {',
    setup,
    ...rest.map((block) => `{\n${block}}`),
    '}',
  ].join('\n');
}

let installed: Installed;
before(async () => {
  installed = await install(client);
  await installed.compile({ 'readme.ts': programOf(readme) });
});
after(() => installed?.remove());

onBothDrivers(
  "The client's README",
  (instance, driver) => {
    test('every code block works as documented', async (t) => {
      const errors = t.mock.method(console, 'error', () => {});
      const { key } = await instance().organization('alpha');
      const { run } = (await import(
        `${pathToFileURL(join(installed.folder, 'compiled/readme.js'))}?${driver}`
      )) as {
        readonly run: (
          url: string,
          key: string,
          check: (actual: unknown, expected: unknown) => void,
        ) => Promise<void>;
      };
      let checked = 0;
      await run(instance().url, key, (actual, expected) => {
        checked++;
        assert.deepEqual(actual, expected);
      });
      assert.ok(checked >= 20, `only ${checked} values were checked`);
      assert.equal(checked, readme.match(/ \/\/ → /g)?.length, 'every arrow was checked');
      const [[fields] = []] = errors.mock.calls.map((call) => call.arguments);
      assert.deepEqual(fields, [
        { field: 'account_id', message: 'account_id 4711 does not exist in accounts' },
      ]);
    });
  },
  { ownServer: true },
);
