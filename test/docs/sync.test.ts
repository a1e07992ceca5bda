// Runs the programs exactly as printed in docs/sync.md: an event receiver, and a sync that can be killed and
// restarted.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { projectFolder } from '../../engine/config/index.ts';
import { runCommand } from '../support/command-line.ts';
import { diceOf } from '../support/dice.ts';
import { type Organization, onBothDrivers, temporaryFolder } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { freePort } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { eventsTo, settledFeed } from '../support/receiver.ts';

const page = readFileSync(join(projectFolder, 'docs/sync.md'), 'utf8');
const [receiver = '', sync = ''] = [...page.matchAll(/^```js\n([\s\S]*?)^```/gm)].map(([, text]) => text);
const port = await freePort();
const kills = 5;
const dice = diceOf(7);

test('the receiver has twenty lines', () => {
  assert.equal(receiver.split('\n').filter((line) => line !== '').length, 20);
});

onBothDrivers(
  'keeping a copy',
  (instance) => {
    const folder = temporaryFolder();
    let acme: Organization;
    before(async () => {
      acme = await instance().organization('acme');
      symlinkSync(join(projectFolder, 'node_modules'), join(folder.path, 'node_modules'));
      writeFileSync(join(folder.path, 'receiver.mjs'), receiver);
      writeFileSync(join(folder.path, 'sync.mjs'), sync);
    });
    after(() => folder.remove());
    const start = (program: string, environment: Record<string, string>) => {
      const env = { PATH: process.env.PATH, NODE_NO_WARNINGS: '1', ...environment };
      const child = spawn(process.execPath, [program], { cwd: folder.path, env });
      const printed = { out: '', error: '' };
      child.stdout.on('data', (chunk) => (printed.out += chunk));
      child.stderr.on('data', (chunk) => (printed.error += chunk));
      const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
      return { child, printed, ended };
    };
    const write = async (request: string, body?: object): Promise<Record<string, unknown>> => {
      const answer = await instance().call(request, { key: acme.key, ...(body && { body }) });
      assert.ok(answer.status < 300, answer.text);
      return answer.json;
    };

    test('sync.mjs: has the same records as the database after repeated kills during writes', async () => {
      const records = Array.from({ length: 1000 }, (_, index) => ({ last_name: `n${index}` }));
      for (let times = 0; times < 3; times++) await write('POST /api/v1/leads/batch', { records });
      const environment = { CRM: instance().url, KEY: acme.key };
      let isOver = false;
      const writing = (async () => {
        for (let count = 0; !isOver; count++) {
          const { id } = await write('POST /api/v1/contacts', { last_name: `c${count}` });
          await write(`PATCH /api/v1/leads/${1 + Math.floor(dice() * 3000)}`, { company: `x${count}` });
          if (count % 3 === 0) await write(`DELETE /api/v1/contacts/${id}`);
        }
      })();
      for (let times = 0; times < kills; times++) {
        const { child, ended } = start('sync.mjs', environment);
        await pause(150 + dice() * 400);
        child.kill('SIGKILL');
        await ended;
      }
      isOver = true;
      await writing;
      await settledFeed(instance());
      const { printed, ended } = start('sync.mjs', environment);
      await ended;
      assert.match(printed.out, /^\d+ records, \d+ changes\n$/, printed.error);
      const copy = new DatabaseSync(join(folder.path, 'copy.db'));
      for (const name of ['leads', 'contacts']) {
        const list = await instance().call(`GET /api/v1/${name}?sort=id`, {
          key: acme.key,
          headers: { accept: 'application/x-ndjson' },
        });
        // account_name comes from another record, whose changes are not changes to this record.
        const own = ({ account_name: _, ...record }: Record<string, unknown>) => record;
        const there = list.text
          .trim()
          .split('\n')
          .map((line) => own(JSON.parse(line)));
        const kept = copy
          .prepare('select record from copy where resource = ? and record is not null order by id')
          .all(name)
          .map(({ record }) => own(JSON.parse(String(record))));
        assert.deepEqual(kept, there);
      }
      copy.close();
    });

    test('receiver.mjs: accepts each signed event once', async () => {
      const url = `http://127.0.0.1:${port}/`;
      await settledFeed(instance());
      const made = await runCommand(instance(), [
        ...[
          'subscription',
          'create',
          url,
          '--org',
          'acme',
          '--resources',
          'leads',
          '--profile',
          'administrator',
        ],
      ]);
      const { secret } = made.json as { secret: string };
      const { child, printed, ended } = start('receiver.mjs', { SECRET: secret, PORT: String(port) });
      try {
        await until(
          () =>
            fetch(url, { method: 'POST' }).then(
              ({ status }) => status === 401,
              () => false,
            ),
          'start',
        );
        const { id } = await write('POST /api/v1/leads', { last_name: 'Lovelace' });
        await until(() => printed.out !== '', 'the event');
        assert.equal(printed.out, `leads.created leads ${id} Lovelace\n`);
      } finally {
        child.kill();
        await ended;
      }
    });
  },
  { ownServer: true, environment: settingsFile(eventsTo(port)).environment },
);
