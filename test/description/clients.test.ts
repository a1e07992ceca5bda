// The description as others take it: linters and parsers have nothing to say, and generators make clients that work.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { drivers, type Instance, type Organization, send, startInstance } from '../support/instance.ts';

const root = join(import.meta.dirname, '../clients');
const generated = join(root, 'generated');
const installed = existsSync(join(root, 'node_modules'));
const section = readFileSync('docs/api.md', 'utf8').split('## Generated clients')[1] ?? '';

/** Runs a program that is installed in the folder of the clients; its output. */
async function run(cwd: string, program: string, ...options: readonly string[]): Promise<string> {
  const PATH = `${join(root, 'node_modules/.bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
  const { stdout } = await promisify(execFile)(program, options, {
    cwd,
    env: { ...process.env, PATH },
  }).catch(({ stdout = '', stderr = '' }) =>
    assert.fail(`${program} ${options.join(' ')}: ${stdout}${stderr}`),
  );
  return stdout;
}

const skip = !installed && 'needs npm ci --prefix test/clients';
describe('the description, as linters and generators take it', { skip }, () => {
  let instance: Instance;
  let organization: Organization;
  before(async () => {
    instance = await startInstance(drivers.at(-1) ?? 'postgresql');
    organization = await instance.organization('alpha');
    rmSync(generated, { recursive: true, force: true });
    mkdirSync(generated);
  });
  after(() => instance.close());

  test('Redocly (recommended-strict), Spectral (oas), and two parsers are silent', async () => {
    const file = join(generated, 'openapi.json');
    writeFileSync(file, (await send(instance.url, 'GET /docs/openapi.json')).text);
    assert.equal(await run(root, process.execPath, 'lint.ts', file), '');
  });

  test('the files and commands of docs/api.md make clients that compile strictly', async () => {
    const blocks = [...section.matchAll(/^```(ts|sh)\n([\s\S]*?)^```/gm)].map(([, language, text = '']) => ({
      language,
      text: text.replaceAll('https://crm.example.com', instance.url),
    }));
    for (const { language, text } of blocks) {
      const [, file] = /^\/\/ (\S+)\n/.exec(text) ?? [];
      if (file !== undefined) writeFileSync(join(generated, file), text);
      for (const [, program = '', options = ''] of language === 'sh'
        ? text.matchAll(/^npx (\S+) ?(.*)$/gm)
        : [])
        await run(generated, program, ...options.split(' ').filter((option) => option !== ''));
    }
    await Promise.all([run(root, 'tsc', '-p', '.'), run(root, 'tsc', '-p', 'tsconfig.hey-api.json')]);
  });

  for (const client of ['openapi-typescript', 'hey-api', 'orval']) {
    test(`the client of ${client} creates, finds, walks, changes and deletes`, async () => {
      const compiled = pathToFileURL(join(generated, 'out/rounds', `${client}.js`));
      const { round } = (await import(compiled.href)) as {
        readonly round: (url: string, key: string) => Promise<void>;
      };
      await round(instance.url, organization.key);
    });
  }
});
