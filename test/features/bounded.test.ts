// The cost of any input is linear and bounded. Every route in the router receives hostile heads, and hostile
// bodies of every content type that it accepts, up to its own limit, plain and compressed. Cost is the
// thread's CPU time relative to a calibration loop in the same process, and the number of allocated bytes. No
// request may fail with a server error, and errors stay small.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { tablesOf } from '../../engine/tables/handle.ts';
import { leastExcess } from '../support/clock.ts';
import {
  type Compression,
  type HostileBody,
  hostileBodies,
  hostileFiles,
  usualTypes,
} from '../support/hostile/bodies.ts';
import { type Client, type Got, shared, startClient } from '../support/hostile/client.ts';
import {
  assertKnown,
  documentedTypes,
  type FileTarget,
  fileTargetsOf,
  isRejecting,
  type Target,
  targetsOf,
  unreached,
} from '../support/hostile/targets.ts';
import { heads, listQueries, queries } from '../support/hostile/values.ts';
import { calibrate, type Work, workOf } from '../support/hostile/work.ts';
import { openWorld, type World } from '../support/hostile/world.ts';
import { drivers, type Instance } from '../support/instance.ts';
import { startProvider } from '../support/providers.ts';

/**
 * Maximum time without returning to the event loop, in units of the calibration loop (2 ms on an idle
 * machine).
 */
const mostStall = 50;
/**
 * Maximum CPU time for a request, for each MiB of its body, and for each line of a file, in units of the
 * calibration loop.
 */
const mostCpu = { request: 60, mebibyte: 60, line: 0.05 };
/**
 * Maximum number of bytes allocated for a request, for a page in its response, for each byte of its body, and for each line of a
 * file.
 */
const mostAllocated = { request: 32 * 1024 * 1024, page: 64 * 1024 * 1024, byte: 64, line: 16 * 1024 };
/** Maximum size of a JSON error response, in bytes. */
const mostErrorBytes = 64 * 1024;
const mebibyte = 1024 * 1024;

const newlines = (count: number, byte: number): number => (byte === 10 ? count + 1 : count);

/** Size of a body before compression. */
interface Size {
  readonly bytes: number;
  /** Number of lines in a file. */
  readonly lines: number;
}
const none: Size = { bytes: 0, lines: 0 };
const bodiless = ['GET', 'HEAD'];
/** Prefixes of the paths of every part of the service. */
const parts = [
  ...['/api/v1/', '/api/booking-forms/', '/auth/', '/docs', '/events', '/events/subscriptions', '/fields/'],
  ...['/mcp', '/oauth/', '/setup/', '/webhooks/'],
];
/** Responses that require correct credentials and signatures, which proves that the bodies are read. */
const mustReach = [
  'POST a record 201',
  'POST a record 400',
  'PUT a record by id 200',
  'POST a batch 200',
  'PATCH a batch 200',
  'DELETE a batch 200',
  'POST /auth/login 401',
  'POST /webhooks/inbound-leads 201',
  'POST /api/booking-forms/whatsapp 400',
  'a payment 200',
  'POST a channel, limit 4194304 200',
  'POST a channel, limit 1048576 200',
  'POST a channel, limit 262144 200',
  'a form 303',
  'a form 400',
  'an import of text/csv 200',
  'an import of text/csv 400',
  'an import of application/x-ndjson 200',
  'a form with a file 200',
  'a form with a file 400',
  'a form with a file 403',
];
/**
 * Targets of the same kind take turns with the smaller bodies: each target receives one body out of this
 * many.
 */
const shares = 20;
/** Size of a body that another route of the same kind receives at full size, in bytes. */
const smaller = 64 * 1024;
/** Size of a file that is sent at full size with the other driver, in bytes. */
const smallest = 4 * 1024;

/** Returns the character before the next parameter of a path. */
const separator = (path: string): string => (path.includes('?') ? '&' : '?');
/** Returns whether a URL belongs to the API instead of the pages. */
const isApi = (url: string): boolean => /^\/(?:api\/v1|auth|events|fields|oauth)(?:\/|$)/.test(url);
/** Returns whether routes of a kind read the parameters of lists. */
const isList = (kind: string): boolean =>
  / a (?:record|query|bulk)|\/data\/:resource(?:\/(?:export|trash|board|views\/new|edit))?$|^GET \/events$|\/activity|\/search/.test(
    kind,
  );
/** Returns the value for a key of a map, which is an empty set at first. */
function noted<T>(statuses: Map<T, Set<number>>, key: T): Set<number> {
  const values = statuses.get(key) ?? new Set();
  statuses.set(key, values);
  return values;
}

/** Maximum number of kinds of routes that share the compressed bodies of a content type. */
const mostShared = 7;
/** Divides the compressed bodies of each content type among the kinds of routes that expect it. */
function compressionsOf(kinds: ReadonlyMap<string, readonly Target[]>): ReadonlyMap<string, Compression> {
  const isRead = ([, [target]]: readonly [string, readonly Target[]]) => target && !isRejecting(target.route);
  const reading = [...kinds].filter(isRead);
  const result = new Map<string, Compression>(
    [...kinds.keys()].map((kind) => [kind, { first: 0, every: mostShared }]),
  );
  for (const alike of Map.groupBy(reading, ([, [target]]) => target?.expected.type).values()) {
    const every = Math.min(mostShared, alike.length);
    for (const [index, [kind]] of alike.entries()) result.set(kind, { first: index % every, every });
  }
  return result;
}

const graph = await startProvider();
after(() => graph.close());
const settings = { graph: { base_url: graph.url, timeout_ms: 20_000 } };

for (const driver of drivers) {
  describe(`hostile requests (${driver})`, () => {
    let world: World;
    let instance: Instance;
    const targets: Target[] = [];
    const files: FileTarget[] = [];
    let client: Client;
    /** All violations. */
    const problems: string[] = [];
    afterEach(() => assert.deepEqual(problems.splice(0), []));
    before(async () => {
      client = startClient();
      world = await openWorld(driver, settings);
      instance = world.instance;
      for (const route of world.routes) {
        targets.push(...(await targetsOf(world, route)));
        files.push(...(await fileTargetsOf(world, route)));
      }
    });
    after(async () => {
      await client.close();
      await instance.close();
    });

    /** Shortest time of the calibration loop so far. */
    let unitMs = calibrate();

    /**
     * Returns the limits that a request exceeded. Runs the calibration loop again if the request was slow.
     */
    function excessOf(
      { stallMs, cpuMs, allocated }: Work,
      { bytes, lines }: Size,
      isPage: boolean,
    ): string[] {
      const most = mostCpu.request + (mostCpu.mebibyte * bytes) / mebibyte + mostCpu.line * lines;
      const mostBytes =
        (isPage ? mostAllocated.page : mostAllocated.request) +
        mostAllocated.byte * bytes +
        mostAllocated.line * lines;
      const isSlow = stallMs > mostStall * unitMs || cpuMs > most * unitMs;
      const now = isSlow ? calibrate() : unitMs;
      unitMs = Math.min(unitMs, now);
      const [stall, cpu] = [stallMs / now, cpuMs / now];
      return [
        ...(stall > mostStall ? [`no return to the event loop for ${stall.toFixed(1)} units`] : []),
        ...(cpu > most ? [`${cpu.toFixed(1)} units of CPU time, ${most.toFixed(1)} at most`] : []),
        ...(allocated > mostBytes ? [`${allocated} bytes allocated, ${mostBytes} at most`] : []),
      ];
    }

    /**
     * Sends a request until its cost is within the limits or the attempts are used up.
     * @param size size of its body after decoding
     */
    async function exchange(name: string, send: () => Promise<Got>, size: Size = none): Promise<Got> {
      let response: Got | undefined;
      const excess = await leastExcess(async () => {
        const work = await workOf(async () => {
          response = await send();
        });
        // The embedded database runs on this thread, so its own work would be measured, too.
        if (driver !== 'postgresql') return [];
        return excessOf(work, size, String(response?.headers['content-type']).startsWith('text/html'));
      });
      assert.ok(response);
      problems.push(...excess.map((what) => `${name}: ${what}`));
      const { status, headers, text, size: sizeOfResponse, failed = '' } = response;
      if (status >= 500 && status !== 501 && status !== 503) problems.push(`${name}: ${status} ${text}`);
      if (status === 0 && !/ECONNRESET|EPIPE/.test(failed)) problems.push(`${name}: ${failed}`);
      const isJson = String(headers['content-type']).startsWith('application/json');
      if (status >= 400 && isJson && sizeOfResponse > mostErrorBytes)
        problems.push(`${name}: an error of ${sizeOfResponse} bytes`);
      if (status > 0 && headers['x-content-type-options'] !== 'nosniff')
        problems.push(`${name}: nosniff is missing`);
      return response;
    }

    const sendTo = (
      { method, headers }: Pick<Target, 'method' | 'headers'>,
      path: string,
      bytes: Uint8Array | undefined,
      more: Readonly<Record<string, string>>,
    ) => {
      const request = { url: instance.url + path, method, body: bytes };
      return client.send({ ...request, headers: { ...headers(bytes ?? Buffer.alloc(0), path), ...more } });
    };

    test('the router has routes of every part of the service', () => {
      for (const part of parts) {
        assert.ok(
          world.routes.some(({ url }) => url.startsWith(part)),
          part,
        );
      }
      assertKnown(targets);
    });

    const headsAndQueries = async () => {
      const send = (target: Target, query: string, fields: Readonly<Record<string, string>>) => {
        const body = bodiless.includes(target.method) ? undefined : Buffer.from('{}');
        const path = query === '' ? target.path : `${target.path}${separator(target.path)}${query}`;
        return () => sendTo(target, path, body, fields);
      };
      /** Sends each request to one target of each group, and at least one request to each target. */
      const distribute = async (
        groups: Iterable<readonly Target[]>,
        names: readonly string[],
        request: (target: Target, name: string) => () => Promise<Got>,
        note = (_target: Target, _status: number) => {},
      ) => {
        for (const group of groups) {
          for (const [place, target] of group.entries()) {
            for (const [index, name] of names.entries()) {
              if (index % group.length !== place && index !== place % names.length) continue;
              const label = `${target.method} ${target.route.url}, ${name}`;
              note(target, (await exchange(label, request(target, name))).status);
            }
          }
        }
      };
      // A module's routes share the code that reads heads, but each kind of route has its own query parsing.
      const module = ({ method, route }: Target) => `${method} ${route.url.split('/').slice(0, 3).join('/')}`;
      await distribute(Map.groupBy(targets, module).values(), Object.keys(heads), (target, name) =>
        send(target, '', heads[name] ?? {}),
      );
      // HEAD requests run the handlers of GET, and the pages of a section share their parameters.
      const section = (kind: string) =>
        isList(kind) || !kind.startsWith('GET /setup/') ? kind : kind.split('/').slice(0, 5).join('/');
      const kinds = Map.groupBy(targets, ({ kind }) => section(kind.replace(/^HEAD /, 'GET ')));
      const statuses = new Map<Target, Set<number>>();
      for (const [kind, group] of kinds) {
        const sent = { ...queries, ...(isList(kind) && listQueries) };
        await distribute(
          [group],
          Object.keys(sent),
          (target, name) => send(target, sent[name] ?? '', {}),
          (target, status) => noted(statuses, target).add(status),
        );
      }
      const reading = [...statuses].filter(([{ method, route }]) => method === 'GET' && isApi(route.url));
      assert.deepEqual(await unreached(world, reading), []);
    };
    // Both drivers share the code that reads heads.
    if (driver === 'postgresql') test('hostile heads and queries', headsAndQueries);

    test('every content type that a route accepts has hostile bodies', async () => {
      const sent = new Map<string, Set<string>>();
      for (const { route } of targets) sent.set(route.url, new Set(usualTypes));
      for (const { route, expected } of files) sent.get(route.url)?.add(expected.type);
      // The batch and import routes are the same for all resources.
      const alike = (url: string) => url.replace(/^\/api\/v1\/\w+\/(batch|import)$/, '/api/v1/leads/$1');
      for (const route of world.routes) {
        const types = sent.get(alike(route.url));
        for (const method of route.methods) {
          for (const type of await documentedTypes({ instance }, { method, route }))
            assert.ok(types?.has(type.replace('merge-patch+', '')), `${method} ${route.url}: ${type}`);
        }
        // If a route parses any type, the description lists the accepted ones.
        if (route.parses('application/anything')) continue;
        for (const type of ['text/csv', 'application/x-ndjson', 'multipart/form-data']) {
          const isSent = files.some(
            ({ route: { url }, expected }) => url === route.url && expected.type === type,
          );
          if (route.parses(type) && route.methods.includes('POST'))
            assert.ok(isSent, `${route.url}: ${type}`);
        }
      }
    });

    /** Kinds of targets, with the status codes that they returned. */
    const reached = new Set<string>();
    /** Types and names of the bodies that were sent, plain and compressed. */
    const sentBodies = { plain: new Set<string>(), compressed: new Set<string>() };

    test('hostile bodies', async () => {
      const taking = targets.filter(({ method }) => !bodiless.includes(method));
      const statuses = new Map<Target, Set<number>>();
      const kinds = Map.groupBy(taking, ({ kind }) => kind);
      const compressions = compressionsOf(kinds);
      for (const [kind, alike] of kinds) {
        for (const [place, target] of alike.entries()) {
          const bodies = hostileBodies(target.expected, compressions.get(kind) ?? assert.fail(kind));
          const inPlace = bodies.filter(({ isInPlace }) => isInPlace).length;
          for (const [index, body] of bodies.entries()) {
            const full = index % alike.length === place;
            // Drivers differ only in what the database rejects, so with the embedded driver, each body is
            // sent to only one route.
            if (driver === 'embedded' && !full) continue;
            // The other targets of a kind take turns with smaller bodies, and each receives one with its own fields.
            if (!full && (index + place) % shares > 0 && index !== place % inPlace) continue;
            const limit = target.route.bodyLimit;
            const size = full && driver === 'postgresql' ? limit : Math.min(limit, smaller);
            const status = await sendBody(target, body, size);
            reached.add(`${target.kind} ${status}`);
            if (body.isInPlace && body.encoding === undefined) noted(statuses, target).add(status);
            // Rejected before the body was read, which is the same for all bodies.
            if (status === 405) break;
          }
        }
      }
      // The files below reach the routes that only accept files.
      const reading = [...statuses].filter(([{ route }]) => !files.some((file) => file.route === route));
      if (driver === 'postgresql') assert.deepEqual(await unreached(world, reading), []);
    });

    test('hostile files', async () => {
      for (const target of files) {
        for (const body of hostileFiles(target.expected)) {
          const size = driver === 'postgresql' ? target.route.bodyLimit : smallest;
          reached.add(`${target.kind} ${await sendBody(target, body, size)}`);
        }
      }
      for (const way of mustReach)
        assert.ok(reached.has(way), `${way} is missing in ${[...reached].join(', ')}`);
    });

    test('each hostile body of every content type is also sent in compressed form', () => {
      const { plain, compressed } = sentBodies;
      for (const type of [...usualTypes, 'text/csv', 'application/x-ndjson'])
        assert.ok(
          [...compressed].some((each) => each.startsWith(`${type}, `)),
          type,
        );
      assert.deepEqual(
        [...plain].filter((each) => !compressed.has(each)),
        [],
      );
    });

    async function sendBody(
      target: Target | FileTarget,
      { name, type, bytes, encoding, query, most = Number.POSITIVE_INFINITY }: HostileBody,
      limit: number,
    ): Promise<number> {
      const plain = bytes(Math.min(limit, most));
      const raw = shared(encoding === undefined ? plain : gzipSync(plain, { level: 1 }));
      const label = `${target.method} ${target.route.url}, ${name} (${plain.length} bytes)`;
      const isFile = 'field' in target.expected;
      const size = { bytes: plain.length, lines: isFile ? plain.reduce(newlines, 0) : 0 };
      const headers = { 'content-type': type, ...(encoding && { 'content-encoding': encoding }) };
      const path = query === undefined ? target.path : `${target.path}${separator(target.path)}${query}`;
      const response = await exchange(label, () => sendTo(target, path, raw, headers), size);
      const sent = encoding === undefined ? sentBodies.plain : sentBodies.compressed;
      sent.add(`${type.split(';')[0]}, ${name.replace(/ in \w.*|, compressed$/g, '')}`);
      return response.status;
    }

    test('stored events are processed or rejected, without failing repeatedly', async () => {
      const rows = await tablesOf(instance.database).selectFrom('crm_inbox').select(['error']).execute();
      assert.ok(rows.length > 0);
      assert.deepEqual(
        rows.filter(({ error }) => error.startsWith('failed')),
        [],
      );
    });
  });
}
