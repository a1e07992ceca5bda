// The admin UI's script and pages: their compressed size, no evaluation of text as code, and form tokens that differ in every response.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { onBothDrivers } from '../support/instance.ts';

const assets = join(import.meta.dirname, '../../plugins/admin-ui/shell/assets');
const ownScripts = readdirSync(assets)
  .filter((name) => name.endsWith('.js'))
  .map((name) => join(assets, name));
const library = createRequire(import.meta.url).resolve('@hotwired/turbo/dist/turbo.es2017-esm.js');

test('the scripts of the admin UI are smaller than 60 KB compressed', () => {
  assert.ok(ownScripts.length > 0);
  const bytes = [...ownScripts, library].reduce((sum, path) => sum + gzipSync(readFileSync(path)).length, 0);
  assert.ok(bytes < 60_000, `${bytes} bytes`);
});

test('the scripts do not evaluate text as code', () => {
  for (const path of ownScripts)
    assert.doesNotMatch(readFileSync(path, 'utf8'), /\beval\(|new Function|innerHTML/, path);
  assert.doesNotMatch(readFileSync(library, 'utf8'), /\beval\(|new Function/);
});

onBothDrivers('pages of the admin UI', (instance) => {
  test('pages are compressed, and their policy forbids inline scripts and eval', async () => {
    const page = await instance().call('GET /setup/login', { headers: { 'accept-encoding': 'gzip' } });
    assert.equal(page.headers.get('content-encoding'), 'gzip');
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.match(policy, /script-src 'self'/);
    assert.doesNotMatch(policy, /unsafe/);
  });

  test('compressed pages never repeat a form token (BREACH)', async () => {
    const first = await instance().call('GET /setup/login');
    const cookie = (first.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    assert.match(cookie, /^crm_csrf=/);
    const tokens: string[] = [];
    for (let count = 0; count < 3; count++) {
      const { text } = await instance().call('GET /setup/login', { headers: { cookie } });
      tokens.push(/name="_csrf" value="([^"]+)"/.exec(text)?.[1] ?? assert.fail(text));
    }
    assert.equal(new Set(tokens).size, 3);
    // The last part is the signature without which a token is worthless.
    assert.equal(new Set(tokens.map((token) => token.slice(-40))).size, 3);
  });
});
