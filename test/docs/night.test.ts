// The night in docs/operations.md: four faults in a running service, and their effects on its pages, log,
// admin port, metrics, API and `crm doctor`. Every line in the page's blocks must have been printed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { projectFolder } from '../../engine/config/index.ts';
import { type Disk, mountDisk } from '../support/disk.ts';
import { readable, signIn, type Visitor } from '../support/forms.ts';
import { drivers, send } from '../support/instance.ts';
import { settingsFile } from '../support/partners.ts';
import { makeDatabaseIn, type Server, startPostgres } from '../support/postgres.ts';
import { crm, migrated, type Service, serve, until } from '../support/process.ts';
import { eventsTo, startReceiver } from '../support/receiver.ts';

/** Possible sources of the lines in the page's blocks. */
const voices = ['readyz', 'metrics', 'api', 'log', 'screen', 'doctor'] as const;
type Voice = (typeof voices)[number];

/** A line of a block, with its source. */
interface Line {
  readonly section: string;
  readonly voice: Voice;
  readonly words: string;
}

const page = readFileSync(join(projectFolder, 'docs/operations.md'), 'utf8');
const lines: readonly Line[] = page.split(/^### /m).flatMap((text) => {
  const section = text.split('\n', 1)[0] ?? '';
  return [...text.matchAll(/^```text\n([\s\S]*?)^```/gm)].flatMap(([, block = '']) =>
    block
      .trim()
      .split('\n')
      .map((line): Line => {
        const [, voice = '', words = ''] = /^(\w+) {2,}(.*)$/.exec(line) ?? [];
        assert.ok(voices.includes(voice as Voice), line);
        return { section, voice: voice as Voice, words };
      }),
  );
});

/** Converts a line to a pattern in which … matches anything. */
const pattern = (words: string) =>
  new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '[^\\n]*?'));

describe('a night', { skip: !drivers.includes('postgresql'), concurrency: 1 }, () => {
  let [server, service, receiver]: [Server?, Service?, Awaited<ReturnType<typeof startReceiver>>?] = [];
  let disk: Disk | undefined;
  let browser: Visitor;
  let environment: Readonly<Record<string, string>>;
  const file = settingsFile({});
  const said = new Map<string, Record<Voice, string>>();

  /** Returns the text of an admin UI page as a user sees it. */
  const screen = async (path: string): Promise<string> => {
    const { text } = await browser.get(path);
    return readable(text.replace(/<[^>]+>/g, ' ')).replace(/\s+/g, ' ');
  };
  const api = async (request: string, body?: object) => {
    const { status, text } = await (service as Service).call(request, {
      key: String(service?.printed.key),
      ...(body && { body }),
    });
    return `${status} ${text}`;
  };
  const readyz = async () => {
    const { status, text } = await send(String(service?.printed.admin), 'GET /readyz');
    return `${status} ${text}`;
  };
  const metrics = async () => (await send(String(service?.printed.admin), 'GET /metrics')).text;
  let heard = 0;
  /** Collects the current output of all sources. */
  const listen = async (section: string, pageOf: string, request: [string, object?]) => {
    const [port, response, shown] = [await readyz(), await api(...request), await screen(pageOf)];
    const { stdout } = await crm(['doctor'], environment);
    const log = service?.stderr() ?? '';
    const place = (text: string) => text.replace(/\S*\/config\.yaml/g, 'config.yaml');
    said.set(section, {
      readyz: port,
      metrics: await metrics(),
      api: response,
      log: place(log.slice(heard)),
      screen: place(shown),
      doctor: place(stdout),
    });
    heard = log.length;
  };

  before(async () => {
    disk = mountDisk(160);
    server = await startPostgres();
    receiver = await startReceiver();
    const database = disk && (await makeDatabaseIn(server, join(disk.path, 'tables')));
    file.write(eventsTo(receiver.port));
    environment = {
      DATABASE_URL: database ?? server.url,
      ...file.environment,
      AUTH_SECRETS: 'the-secret-that-signs-everything-0123456789',
      ...(disk && { DATA_DIR: join(disk.path, 'data') }),
    };
    await migrated.fill(environment);
    service = await serve({ ...environment, ADMIN_PORT: '0', LOG_FORMAT: 'json' });
    const hook = [`${receiver.url}/events`, '--org', 'demo', '--resources', 'leads'];
    const as = ['--profile', 'administrator'];
    const made = await crm(['subscription', 'create', ...hook, ...as], environment);
    assert.equal(made.code, 0, made.stderr);
    const { email, password } = service.printed;
    browser = await signIn(service, { email: String(email), password: String(password) });
  });
  after(async () => {
    await service?.kill();
    await receiver?.close();
    await server?.stop();
    disk?.remove();
  });

  test('bad configuration', async () => {
    file.write('partners:\n  inbound_leads: { secret: [a-secret-of-the-file] }\n');
    await until(async () => (await readyz()).startsWith('503'), 'refuse the file');
    await listen('Bad configuration', '/setup/o/demo', ['GET /api/v1/leads?limit=1']);
    file.write(eventsTo(receiver?.port ?? 0));
    await until(async () => (await readyz()).startsWith('200'), 'take the file again');
  });

  test('a dead receiver', async () => {
    receiver?.behave('/events', 500);
    await api('POST /api/v1/leads', { last_name: 'Lovelace' });
    await until(() => (receiver?.received.length ?? 0) > 0, 'send the event');
    await until(
      async () => /responded with 500/.test(await screen('/setup/o/demo/events?show=event-deliveries')),
      'show the failure',
    );
    await listen('A failing receiver', '/setup/o/demo/events?show=event-deliveries', [
      'GET /api/v1/leads?limit=1',
    ]);
    receiver?.behave('/events', 204);
  });

  test('the disk is full', async (t) => {
    if (disk === undefined) return t.skip('not permitted: to mount a disk of its own');
    disk.fill();
    // Some writes still fit into space that the database has already reserved.
    const records = Array.from({ length: 500 }, (_, n) => ({ last_name: `n${n}`.repeat(40) }));
    await until(
      async () => (await api('POST /api/v1/leads/batch', { records })).startsWith('5'),
      'find no room',
    );
    await listen('The disk is full', '/setup/o/demo/data/leads', ['POST /api/v1/leads/batch', { records }]);
    disk.free();
    await until(
      async () => (await api('POST /api/v1/leads', { last_name: 'x' })).startsWith('201'),
      'write again',
    );
  });

  test('the database is gone', async () => {
    await server?.pause();
    await until(async () => /ECONNREFUSED/.test(await readyz()), 'notice it');
    await listen('The database is down', '/setup/o/demo', ['GET /api/v1/leads?limit=1']);
    await server?.resume();
    await until(async () => (await readyz()).startsWith('200'), 'be ready again');
  });

  for (const { section, voice, words } of lines) {
    test(`${section}, ${voice}: ${words.trim().slice(0, 60)}`, (t) => {
      const texts = said.get(section);
      if (texts === undefined && disk === undefined)
        return t.skip('not permitted: to mount a disk of its own');
      assert.match(String(texts?.[voice]), pattern(words));
    });
  }

  test('every source reports every incident, without secrets', () => {
    for (const section of said.keys())
      for (const voice of voices)
        assert.ok(
          lines.some((line) => line.section === section && line.voice === voice),
          `${section}: ${voice}`,
        );
    assert.doesNotMatch(JSON.stringify([...said.values()]), /a-secret-of-the-file|the-secret-that/);
  });
});
