// The client in a real browser: the packed JavaScript without a bundler, on a page from another origin.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromiumPath, launch } from '../support/chromium.ts';
import { install } from '../support/client-package.ts';
import { startInstance } from '../support/instance.ts';
import { project } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';

/** Source code of the page's module. */
const script = `
import { createClient, etag, NotFoundError } from './dist/index.js';
const parameters = new URLSearchParams(location.hash.slice(1));
const crm = createClient({ url: parameters.get('url'), key: parameters.get('key') });
const results = {};
const made = await crm.opportunities.create({ name: 'exact', amount: '12345678901234567.89', probability: 2n ** 62n });
results.exact = [made.amount, String(made.probability)];
await crm.cases.createMany(Array.from({ length: 25 }, (_, n) => ({ subject: String(n) })));
const subjects = new Set();
for await (const { subject } of crm.cases.all()) subjects.add(subject);
results.walked = subjects.size;
results.counted = (await crm.cases.list({ count: 'exact' })).total;
results.tag = typeof etag(made);
const changed = await crm.opportunities.update(made.id, ({ probability }) => ({ probability: probability - 1n }));
results.changed = String(changed.probability);
results.exported = 0;
for await (const _ of crm.cases.export()) results.exported++;
results.imported = (await crm.contacts.import(new Blob(['last_name\\r\\nHopper\\r\\n']), { format: 'csv' })).created;
await crm.opportunities.delete(made.id);
const missing = await crm.opportunities.get(made.id).catch((error) => error);
results.missing = [missing instanceof NotFoundError, missing.code, typeof missing.requestId];
document.title = JSON.stringify(results);
`;

const skip = chromiumPath() === undefined && 'no Chromium: install it or set CHROMIUM_PATH';
test('the client works on a page of another origin', { skip }, async () => {
  const installed = await install(join(project, 'client'));
  const server = createServer(({ url = '/' }, response) => {
    if (url === '/')
      return response
        .setHeader('content-type', 'text/html')
        .end('<script type=module src=/page.js onerror="document.title=`{}`"></script>');
    const isOfClient = /^\/dist\/[\w.]+\.js$/.test(url);
    if (!isOfClient && url !== '/page.js') return response.writeHead(404).end();
    const text = isOfClient
      ? readFileSync(join(installed.folder, 'node_modules/@crm-engine/client', url))
      : script;
    return response.setHeader('content-type', 'text/javascript').end(text);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [instance, browser] = await Promise.all([
    startInstance('postgresql', { environment: { CORS_ORIGINS: origin } }),
    launch(),
  ]);
  try {
    const { key } = await instance.organization('alpha');
    const page = await browser.newPage();
    page.setDefaultTimeout(patienceMs);
    const errors: string[] = [];
    page.on('pageerror', ({ message }) => errors.push(message));
    await page.goto(`${origin}/#${new URLSearchParams({ url: instance.url, key })}`);
    await page.waitForFunction("document.title !== ''").catch(() => {});
    assert.deepEqual(errors, []);
    assert.deepEqual(JSON.parse(await page.title()), {
      exact: ['12345678901234567.89', '4611686018427387904'],
      walked: 25,
      counted: 25,
      tag: 'string',
      changed: '4611686018427387903',
      exported: 25,
      imported: 1,
      missing: [true, 'not_found', 'string'],
    });
  } finally {
    await browser.close();
    await instance.close();
    server.close();
    installed.remove();
  }
});
