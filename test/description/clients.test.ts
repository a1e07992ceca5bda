// The OpenAPI description in other tools: linters and parsers do not report problems, and generators produce
// working clients.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { openApi32 } from '../../engine/http/openapi-3-2.ts';
import { drivers, type Instance, type Organization, send, startInstance } from '../support/instance.ts';
import { programsIn } from '../support/programs.ts';

const root = join(import.meta.dirname, '../clients');
const generated = join(root, 'generated');
const installed = existsSync(join(root, 'node_modules'));
const section = readFileSync('docs/api.md', 'utf8').split('## Generated clients')[1] ?? '';

const run = programsIn(root);

/**
 * Returns the file of a package's only command. Two versions of Orval cannot both be linked under one name.
 */
function commandOf(name: string): string {
  const folder = join(root, 'node_modules', name);
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    readonly bin: string | Readonly<Record<string, string>>;
  };
  return join(folder, typeof bin === 'string' ? bin : (Object.values(bin)[0] ?? ''));
}

/** Configurations for generators that are not in docs/api.md. */
const others: Readonly<Record<string, string>> = {
  'kubb.config.ts': `
import { pluginClient } from '@kubb/plugin-client';
import { pluginOas } from '@kubb/plugin-oas';
import { pluginTs } from '@kubb/plugin-ts';
import { pluginZod } from '@kubb/plugin-zod';
export default {
  input: { path: './openapi.json' },
  output: { path: 'kubb', extension: { '.ts': '.ts' }, format: false },
  plugins: [
    pluginOas(),
    pluginTs(),
    pluginZod({ dateType: 'stringOffset' }),
    pluginClient({ client: 'fetch', parser: 'zod', bundle: true }),
  ],
};`,
  'orval-7.config.ts': `
const input = './openapi.json';
const contentType = { include: ['application/json'] };
const zod = { dateTimeOptions: { offset: true } };
const baseUrl = 'https://crm.example.com';
export default {
  client: { input, output: { target: 'orval-7.ts', client: 'fetch', baseUrl, override: { contentType } } },
  schemas: { input, output: { target: 'orval-7-zod.ts', client: 'zod', override: { contentType, zod } } },
};`,
};

const skip = !installed && 'needs npm ci --prefix test/clients';
describe('the description in linters and generators', { skip }, () => {
  let instance: Instance;
  let organization: Organization;
  before(async () => {
    instance = await startInstance(drivers.at(-1) ?? 'postgresql');
    organization = await instance.organization('alpha');
    rmSync(generated, { recursive: true, force: true });
    mkdirSync(generated);
  });
  after(() => instance.close());

  test('passes Redocly (recommended-strict), Spectral (oas) and two parsers without messages', async () => {
    const file = join(generated, 'openapi.json');
    writeFileSync(file, (await send(instance.url, 'GET /docs/openapi.json')).text);
    assert.equal(await run(root, process.execPath, 'lint.ts', file), '');
  });

  test('passes Redocly as OpenAPI 3.2', async () => {
    const file = join(generated, 'openapi-3.2.json');
    const { json } = await send(instance.url, 'GET /docs/openapi.json');
    writeFileSync(file, JSON.stringify(openApi32(json, '/api/v1')));
    assert.equal(await run(root, process.execPath, 'lint-3-2.ts', file), '');
  });

  test('passes the AsyncAPI parser', async () => {
    const file = join(generated, 'asyncapi.json');
    writeFileSync(file, (await send(instance.url, 'GET /docs/asyncapi.json')).text);
    assert.equal(await run(root, process.execPath, 'lint-async-api.ts', file), '');
  });

  test('compiles strictly with the files and commands in docs/api.md', async () => {
    const blocks = [...section.matchAll(/^```(ts|sh)\n([\s\S]*?)^```/gm)].map(([, language, text = '']) => ({
      language,
      text: text.replaceAll('https://crm.example.com', instance.url),
    }));
    for (const { language, text } of blocks) {
      const [, file] = /^\/\/ (\S+)\n/.exec(text) ?? [];
      if (file !== undefined) writeFileSync(join(generated, file), text);
      for (const [, program = '', options = ''] of language === 'sh'
        ? text.matchAll(/^npx (\S+) ?(.*)$/gm)
        : []) {
        const words = options.split(' ').filter((option) => option !== '');
        if (program === 'orval') await run(generated, process.execPath, commandOf(program), ...words);
        else await run(generated, program, ...words);
      }
    }
    await Promise.all([run(root, 'tsc', '-p', '.'), run(root, 'tsc', '-p', 'tsconfig.hey-api.json')]);
  });

  test('compiles with Kubb, Orval 7 and swagger-typescript-api', async () => {
    for (const [file, text] of Object.entries(others))
      writeFileSync(join(generated, file), text.replace('https://crm.example.com', instance.url));
    const swagger = ['-p', 'openapi.json', '-o', '.', '-n', 'swagger-typescript-api.ts'];
    await run(generated, 'kubb', 'generate', '--config', 'kubb.config.ts');
    await run(generated, process.execPath, commandOf('orval-7'), '--config', 'orval-7.config.ts');
    await run(generated, 'swagger-typescript-api', 'generate', ...swagger);
    await run(root, 'tsc', '-p', 'tsconfig.others.json');
  });

  for (const client of ['openapi-typescript', 'hey-api', 'orval', 'kubb', 'orval-7']) {
    test(`the ${client} client creates, finds, pages through, updates and deletes records`, async () => {
      const compiled = pathToFileURL(join(generated, 'out/rounds', `${client}.js`));
      const { round } = (await import(compiled.href)) as {
        readonly round: (url: string, key: string) => Promise<void>;
      };
      await round(instance.url, organization.key);
    });
  }

  test('makes a Postman collection whose requests for records all succeed as imported', async () => {
    // The examples refer to the first records of an instance.
    const own = await startInstance(drivers.at(-1) ?? 'postgresql');
    const { key } = await own.organization('postman');
    const { sendCollection } = (await import(pathToFileURL(join(root, 'postman.ts')).href)) as {
      readonly sendCollection: (document: string, target: Target) => Promise<readonly Sent[]>;
    };
    const document = (await send(own.url, 'GET /docs/openapi.json')).text;
    const folders = own.resources.map(({ name }) => name);
    const sent = await sendCollection(document, { url: own.url, key, folders });
    await own.close();
    for (const name of folders)
      assert.ok(sent.filter(({ path }) => path.startsWith(`/api/v1/${name}`)).length >= 13, name);
    // The record in the example of a batch has already been deleted, and bulk changes require a filter.
    const cannotSucceed = ({ method, path }: Sent) =>
      (method === 'DELETE' && path.endsWith('/batch')) ||
      (['PATCH', 'DELETE'].includes(method) && folders.some((name) => path === `/api/v1/${name}`));
    const failed = sent.filter((each) => (each.status ?? 500) >= 300 && !cannotSucceed(each));
    assert.deepEqual(failed, []);
  });
});

/** See `sendCollection` in test/clients/postman.ts. */
interface Target {
  readonly url: string;
  readonly key: string;
  readonly folders: readonly string[];
}

/** A request of a collection and its response; see test/clients/postman.ts. */
interface Sent {
  readonly method: string;
  readonly path: string;
  readonly status: number | undefined;
  readonly text: string;
}
