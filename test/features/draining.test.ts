// While the process stops, requests in progress are completed, and later requests on open connections receive
// a 503.
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { startInstance } from '../support/instance.ts';
import { until } from '../support/process.ts';
import { patienceMs, within } from '../support/promised.ts';
import { opened } from '../support/wire.ts';

const crlf = '\r\n';

test('completes requests in progress on kept-alive connections and answers later ones with 503', async () => {
  const instance = await startInstance('postgresql');
  const { key } = await instance.organization('acme');
  const head = (line: string, ...fields: string[]) =>
    [line, 'Host: crm', `Authorization: Bearer ${key}`, ...fields, '', ''].join(crlf);
  const get = head('GET /api/v1/leads HTTP/1.1');
  const body = '{"last_name":"under way"}';
  const post = `${head('POST /api/v1/leads HTTP/1.1', 'Content-Type: application/json', `Content-Length: ${body.length}`)}`;

  // The head that is sent in two parts must not time out on a busy machine.
  instance.app.server.headersTimeout = patienceMs;
  instance.app.bodyTimeoutMs = patienceMs;
  const [begun, next] = [await opened(instance.url), await opened(instance.url)];
  const answers = (text: string) => text.match(/HTTP\/1\.1 \d{3}/g) ?? [];
  // Each connection has completed one request and is kept alive. One connection then sends part of a body,
  // and the other sends part of a head.
  for (const [socket, more] of [
    [begun, post],
    [next, get.slice(0, 40)],
  ] as const) {
    socket.send(get);
    await until(async () => answers(socket.text()).length === 1, 'the first response');
    socket.send(more);
  }
  const { server } = instance.app;
  const connections = () =>
    new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
  assert.equal(await connections(), 2);
  // The response on a third connection proves that the bytes sent before have been read.
  await instance.call('GET /api/v1/leads', { key, headers: { connection: 'close' } });

  const closed = instance.close();
  await until(async () => !server.listening, 'stop listening');
  begun.send(body);
  next.send(get.slice(40));
  await Promise.all([begun.ended, next.ended, closed]);
  assert.deepEqual(answers(begun.text()), ['HTTP/1.1 200', 'HTTP/1.1 201']);
  assert.deepEqual(answers(next.text()), ['HTTP/1.1 200', 'HTTP/1.1 503']);
  assert.match(next.text(), /retry-after: 1\r\n/i);
  for (const socket of [begun, next]) {
    assert.match(socket.text().split('HTTP/1.1').at(-1) ?? '', /connection: close\r\n/i);
  }
});

test('completes responses in progress and closes their connections', async () => {
  const instance = await startInstance('postgresql');
  const { key } = await instance.organization('acme');
  for (let count = 0; count < 10; count++) {
    const body = { description: 'x'.repeat(1_000_000) };
    assert.equal((await instance.call('POST /api/v1/leads', { key, body })).status, 201);
  }
  instance.app.server.keepAliveTimeout = 3_600_000;
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(instance.url).port) });
  socket.write(
    ['GET /api/v1/leads HTTP/1.1', 'Host: crm', `Authorization: Bearer ${key}`, '', ''].join(crlf),
  );
  // The head arrives, then the client stops reading.
  let received = 0;
  await new Promise<void>((resolve) => {
    socket.once('data', (chunk: Buffer) => {
      socket.pause();
      received += chunk.length;
      const head = chunk.toString('latin1').split(crlf + crlf)[0] ?? '';
      assert.match(head, /^HTTP\/1\.1 200 /);
      assert.doesNotMatch(head, /connection: close/i);
      resolve();
    });
  });
  const closed = instance.close();
  await until(async () => !instance.app.server.listening, 'stop listening');
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length;
  });
  socket.resume();
  // Much shorter than the time for which an idle connection is kept open.
  await within(60_000, closed);
  assert.ok(received > 10_000_000, String(received));
});

test('idle connections: a request sent during shutdown gets a 503 or a clean close, never a reset', async () => {
  const instance = await startInstance('postgresql');
  // It also applies to the connections that send nothing.
  instance.app.server.headersTimeout = patienceMs;
  const { key } = await instance.organization('acme');
  const head = (line: string, ...fields: string[]) =>
    [line, 'Host: crm', `Authorization: Bearer ${key}`, ...fields, '', ''].join(crlf);
  const body = '{"last_name":"while it closes"}';
  const post = `${head('POST /api/v1/leads HTTP/1.1', 'Content-Type: application/json', `Content-Length: ${body.length}`)}${body}`;
  const clients = await Promise.all(
    Array.from({ length: 24 }, async (_, index) => {
      const socket = connect({
        host: '127.0.0.1',
        port: Number(new URL(instance.url).port),
        allowHalfOpen: true,
      });
      const client = { socket, text: '', outcome: new Promise<string>(() => {}) };
      socket.setEncoding('latin1').on('data', (chunk: string) => {
        client.text += chunk;
      });
      client.outcome = new Promise((resolve) => {
        socket.once('error', ({ message }) => resolve(message));
        socket.once('end', () => resolve('closed'));
      });
      // Every fourth connection has not been used.
      if (index % 4 === 0) return client;
      socket.write(head('GET /api/v1/leads HTTP/1.1'));
      await until(() => client.text.includes(crlf + crlf), 'the first response');
      return client;
    }),
  );
  const server = instance.app.server;
  const connections = () =>
    new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
  await until(async () => (await connections()) === clients.length, 'accept all of them');
  const closed = instance.app.close();
  for (const [index, { socket, text }] of clients.entries()) {
    const send = () => {
      // The head is sent in two parts. The second can arrive on a connection that has closed since the first.
      socket.write(post.slice(0, 30));
      setImmediate(() => socket.write(post.slice(30)));
    };
    // Send before the service closes its side, during the close, and after the client has noticed the close.
    if (index % 3 === 0) send();
    else if (index % 3 === 1) setImmediate(() => setImmediate(send));
    else socket.once('end', send);
    assert.doesNotMatch(text, /HTTP\/1\.1 (?!200)/);
  }
  const outcomes = await Promise.all(clients.map(({ outcome }) => outcome));
  assert.deepEqual(outcomes, Array<string>(clients.length).fill('closed'));
  // The service does not wait for a client that never closes its side.
  const [open = assert.fail(), ...others] = clients;
  const late = others.map(
    ({ socket }) => new Promise<void>((resolve) => socket.once('close', () => resolve())),
  );
  for (const { socket } of others) socket.end();
  await within(patienceMs, Promise.all([closed, ...late]));
  open.socket.destroy();
  const statuses = clients.flatMap(({ text }) => text.match(/HTTP\/1\.1 \d{3}/g) ?? []);
  assert.deepEqual([...new Set(statuses)].sort(), ['HTTP/1.1 200', 'HTTP/1.1 503']);
  assert.equal(statuses.filter((status) => status.endsWith('200')).length, 18, 'no late request is executed');
  await instance.close();
});
