// The listener of `crm dev`, whose app is replaced with each edit while its connections stay open.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { readConfig } from '../../app/config.ts';
import { createSwitchableListener, httpServer } from '../../engine/http/index.ts';
import { until } from '../support/process.ts';
import { patienceMs, within } from '../support/promised.ts';
import { opened } from '../support/wire.ts';

describe('a switchable listener', () => {
  const ends: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
  });

  /** Creates an app that responds with its name, to `/slow` only when it is released. */
  async function appNamed(name: string) {
    const config = readConfig({});
    const app = await httpServer({ ...config, workers: 1 }, { hold: () => () => {} }, []);
    const [arrived, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let isClosed = false;
    app.get('/', async () => name);
    app.get('/slow', async () => {
      arrived.resolve();
      await released.promise;
      return name;
    });
    app.addHook('onClose', async () => {
      isClosed = true;
    });
    await app.ready();
    return { app, arrived: arrived.promise, release: released.resolve, isClosed: () => isClosed };
  }

  /** Starts a listener with an app. */
  async function start() {
    const first = await appNamed('first');
    const listener = createSwitchableListener(first.app);
    const { promise: listening, resolve } = Promise.withResolvers<void>();
    listener.server.listen(0, '127.0.0.1', resolve);
    await listening;
    const url = `http://127.0.0.1:${(listener.server.address() as AddressInfo).port}`;
    const get = (path: string) => within(patienceMs, fetch(url + path));
    const read = async (path: string) => (await get(path)).text();
    ends.push(listener.close);
    return { listener, first, url, get, read };
  }

  test('its app responds to malformed requests and to expectations', async () => {
    const { url } = await start();
    for (const [request, status, code] of [
      ['nonsense', 400, 'invalid_request'],
      ['GET / HTTP/1.1\r\nHost: x\r\nExpect: wonders\r\nConnection: close', 417, 'expectation_failed'],
    ] as const) {
      const socket = await opened(url);
      socket.send(`${request}\r\n\r\n`);
      await within(patienceMs, socket.ended);
      assert.match(socket.text(), new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(socket.text(), new RegExp(`"code":"${code}"`));
    }
  });

  test('new requests wait for the work between two apps, which waits for the previous requests', async () => {
    const { listener, first, read } = await start();
    const second = await appNamed('second');
    const events: string[] = [];
    const slow = read('/slow');
    await first.arrived;
    const work = Promise.withResolvers<void>();
    const swapped = listener.swap(second.app, () => {
      events.push('work');
      return work.promise;
    });
    for (let turns = 0; turns < 20; turns++) await turn();
    assert.equal(events.length, 0);
    first.release();
    assert.equal(await slow, 'first');
    await until(() => events.length > 0, 'the work to start');
    const received = once(listener.server, 'request');
    const next = read('/').then((text) => void events.push(text));
    await within(patienceMs, received);
    for (let turns = 0; turns < 20; turns++) await turn();
    work.resolve();
    await Promise.all([swapped, next]);
    assert.deepEqual(events, ['work', 'second']);
  });

  test('the previous app stays in use if the work fails', async () => {
    const { listener, read } = await start();
    const { app } = await appNamed('second');
    ends.push(() => app.close());
    const failure = new Error('the migration failed');
    await assert.rejects(
      listener.swap(app, () => Promise.reject(failure)),
      failure,
    );
    assert.equal(await read('/'), 'first');
  });

  test('the previous app is closed after its last response', async () => {
    const { listener, first, read } = await start();
    const second = await appNamed('second');
    const slow = read('/slow');
    await first.arrived;
    await listener.swap(second.app);
    assert.equal(await read('/'), 'second');
    assert.equal(first.isClosed(), false);
    first.release();
    assert.equal(await slow, 'first');
    await until(first.isClosed, 'the previous app to be closed');
    assert.equal(second.isClosed(), false);
  });

  test('closing it completes the requests in progress, and closes their connections', async () => {
    const { listener, first, get } = await start();
    const slow = get('/slow');
    await first.arrived;
    const closed = listener.close();
    first.release();
    const response = await slow;
    assert.deepEqual([await response.text(), response.headers.get('connection')], ['first', 'close']);
    await within(patienceMs, closed);
    assert.equal(first.isClosed(), true);
    ends.length = 0;
  });
});
