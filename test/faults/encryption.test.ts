// sslmode and its parameters, tested on real servers with and without TLS. Each mode must behave as in libpq.
import assert from 'node:assert/strict';
import { createPrivateKey } from 'node:crypto';
import { appendFileSync, chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { readConfig } from '../../app/config.ts';
import { describeAddress, parseAddress } from '../../engine/database/address.ts';
import { openDatabase } from '../../engine/database/open.ts';
import { type Certificates, makeCertificates } from '../support/certificates.ts';
import { temporaryFolder } from '../support/instance.ts';
import { connected, type Server, startPostgres } from '../support/postgres.ts';
import { until } from '../support/process.ts';
import { patient } from '../support/promised.ts';

/** Connects as the service does. @returns whether the connection is encrypted */
async function connect(url: URL): Promise<'encrypted' | 'plain'> {
  const database = await openDatabase(readConfig({ ...patient, DATABASE_URL: url.href }), []);
  try {
    const [row] = await database.run({
      name: '',
      text: 'select ssl::text from pg_stat_ssl where pid = pg_backend_pid()',
      values: [],
    });
    return row?.[0] === 'true' ? 'encrypted' : 'plain';
  } finally {
    await database.close();
  }
}

type Expected = 'encrypted' | 'plain' | RegExp;
/** sslmode, host, root certificate and the expected result. The server's certificate is for `localhost`. */
type Row = readonly [
  mode: string | undefined,
  host: string,
  root: 'right' | 'wrong' | 'system' | '',
  Expected,
];

const noTls = /does not respond: The server does not support SSL connections/;
const untrusted = /does not respond: (unable to (verify|get)|self-signed|certificate)/;

const without: readonly Row[] = [
  [undefined, '127.0.0.1', '', 'plain'],
  ['disable', '127.0.0.1', '', 'plain'],
  ['allow', '127.0.0.1', '', 'plain'],
  ['prefer', '127.0.0.1', '', 'plain'],
  ['require', '127.0.0.1', '', noTls],
  ['verify-ca', '127.0.0.1', 'right', noTls],
  ['verify-full', 'localhost', 'right', noTls],
];
const withTls: readonly Row[] = [
  [undefined, '127.0.0.1', '', 'encrypted'],
  ['disable', '127.0.0.1', '', 'plain'],
  ['allow', '127.0.0.1', '', 'plain'],
  ['prefer', '127.0.0.1', '', 'encrypted'],
  ['prefer', '127.0.0.1', 'wrong', 'plain'],
  ['require', '127.0.0.1', '', 'encrypted'],
  ['require', '127.0.0.1', 'right', 'encrypted'],
  ['require', '127.0.0.1', 'wrong', untrusted],
  ['verify-ca', '127.0.0.1', 'right', 'encrypted'],
  ['verify-ca', 'localhost', 'wrong', untrusted],
  ['verify-full', 'localhost', 'right', 'encrypted'],
  [
    'verify-full',
    '127.0.0.1',
    'right',
    /does not respond: .*does not match|does not respond: .*not in the cert/,
  ],
  ['verify-full', 'localhost', 'wrong', untrusted],
  ['verify-full', 'localhost', 'system', untrusted],
  [undefined, 'localhost', 'system', untrusted],
];

describe('sslmode', { concurrency: 1 }, () => {
  const folder = temporaryFolder();
  let server: Server;
  let files: Certificates;

  before(async () => {
    server = await startPostgres();
    await connected(server.url, async (client) => {
      const { rows } = await client.query<{ data_directory: string }>('show data_directory');
      const data = String(rows[0]?.data_directory);
      chmodSync(folder.path, 0o755);
      files = makeCertificates(folder.path, statSync(data));
      for (const name of ['certificates_only', 'encrypted_only', 'plain_only'])
        await client.query(`create database ${name}`);
      const access = join(data, 'pg_hba.conf');
      const rules = readFileSync(access, 'utf8');
      const own = [
        'hostssl certificates_only all all cert',
        'hostnossl encrypted_only all all reject',
        'hostssl plain_only all all reject',
      ];
      writeFileSync(access, `${own.join('\n')}\n`);
      appendFileSync(access, rules);
    });
  });
  after(async () => {
    await server?.stop();
    folder.remove();
  });

  function address([mode, host, root]: Row): URL {
    const url = new URL(server.url);
    url.hostname = host;
    if (mode !== undefined) url.searchParams.set('sslmode', mode);
    const file = { right: files.authority, wrong: files.stranger, system: 'system', '': undefined }[root];
    if (file !== undefined) url.searchParams.set('sslrootcert', file);
    return url;
  }
  const check = async (url: URL, expected: Expected) => {
    if (expected instanceof RegExp)
      await assert.rejects(connect(url), { name: 'UserError', message: expected });
    else assert.equal(await connect(url), expected);
  };
  const name = ([mode, host, root]: Row) =>
    `${mode ?? 'no sslmode'}, ${host}, root certificate: ${root || 'none'}`;

  describe('a server without TLS', () => {
    for (const row of without) test(name(row), () => check(address(row), row[3]));
  });

  describe('a server with TLS', () => {
    before(async () => {
      await connected(server.url, async (client) => {
        const set = (setting: string, value: string) =>
          client.query(`alter system set ${setting} = '${value}'`);
        await set('ssl_cert_file', files.server.cert);
        await set('ssl_key_file', files.server.key);
        await set('ssl_ca_file', files.authority);
        await set('ssl', 'on');
        await client.query('select pg_reload_conf()');
      });
      const encrypted = async () => (await connect(new URL(server.url))) === 'encrypted';
      await until(encrypted, 'the server to offer TLS');
    });
    for (const row of withTls) test(name(row), () => check(address(row), row[3]));

    for (const [mode, accepted, strict] of [
      ['allow', 'encrypted', 'disable'],
      ['prefer', 'plain', 'require'],
    ] as const)
      test(`${mode} also connects if the server accepts only ${accepted} connections`, async () => {
        const url = new URL(server.url);
        url.pathname = `/${accepted}_only`;
        url.searchParams.set('sslmode', mode);
        await check(url, accepted);
        url.searchParams.set('sslmode', strict);
        await check(url, /does not respond: .*pg_hba\.conf/);
      });

    test('sends sslcert and sslkey to a server that requires a client certificate', async () => {
      const url = new URL(server.url);
      url.pathname = '/certificates_only';
      url.searchParams.set('sslmode', 'require');
      await check(url, /does not respond: .*certificate/);
      url.searchParams.set('sslcert', files.client.cert);
      url.searchParams.set('sslkey', files.client.key);
      await check(url, 'encrypted');
      const protectedKey = join(folder.path, 'protected.key');
      const key = createPrivateKey(readFileSync(files.client.key));
      const cipher = { cipher: 'aes-256-cbc', passphrase: 'secret' };
      writeFileSync(protectedKey, key.export({ type: 'pkcs8', format: 'pem', ...cipher }));
      url.searchParams.set('sslkey', protectedKey);
      assert.throws(() => parseAddress(url.href), /^UserError: the certificates cannot be used: /);
      url.searchParams.set('sslpassword', 'secret');
      await check(url, 'encrypted');
    });
  });
});

test('rejects unsupported parameters by name, without revealing the password', () => {
  const folder = temporaryFolder();
  const garbage = join(folder.path, 'garbage.crt');
  writeFileSync(garbage, 'no certificate');
  const broken = join(folder.path, 'broken.crt');
  writeFileSync(broken, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
  const refused: Readonly<Record<string, RegExp>> = {
    'sslmode=sometimes': /: sslmode must be one of disable, allow, /,
    'sslmod=require': /: unknown parameter "sslmod"\. Did you mean "sslmode"\?$/,
    'pgbouncer=true': /: unknown parameter "pgbouncer"$/,
    'sslmode=require&sslmode=disable': /: "sslmode" is set twice$/,
    'sslmode=verify-ca': /: sslmode=verify-ca requires sslrootcert/,
    'sslmode=verify-full': /: sslmode=verify-full requires sslrootcert/,
    'sslmode=require&sslrootcert=system': /: sslrootcert=system requires sslmode=verify-full$/,
    'sslmode=verify-ca&sslrootcert=system': /: sslrootcert=system requires sslmode=verify-full$/,
    'sslrootcert=/nowhere/root.crt':
      /: sslrootcert "\/nowhere\/root\.crt" cannot be read: it does not exist$/,
    [`sslrootcert=${garbage}`]: /: sslrootcert ".*" is not a PEM file$/,
    [`sslcert=${broken}&sslkey=${broken}`]: /: the certificates cannot be used: /,
    'sslcert=/some.crt': /: sslcert and sslkey must be used together$/,
    'target_session_attrs=standby':
      /: target_session_attrs must be one of any, read-write, primary, because the service must be able to write$/,
    'connect_timeout=soon': /: connect_timeout must be a number of seconds$/,
    'connect_timeout=1000000': /: connect_timeout must be a number of seconds$/,
    'port=1,2': /: 2 ports are set for 1 hosts$/,
    'port=0': /: a port must be a number from 1 to 65535; /,
    'port=65536': /: a port must be a number from 1 to 65535; /,
    'application_name=%zz': /: "%" must be followed by /,
  };
  try {
    for (const [query, message] of Object.entries(refused)) {
      const given = { DATABASE_URL: `postgres://u:s3cret@h/db?${query}` };
      assert.throws(() => readConfig(given), { name: 'UserError', message });
    }
    for (const password of ['s3cret/x', 's3cret?x', 's3cret?x=y', 'x?s3cret', 's3cret%', 's3:cret/']) {
      const given = { DATABASE_URL: `postgres://u:${password}@h/db` };
      assert.throws(
        () => readConfig(given),
        (error: Error) => error.message.startsWith('DATABASE_URL: ') && !error.message.includes('cret'),
        password,
      );
    }
  } finally {
    folder.remove();
  }
});

test('accepts the supported parameters', () => {
  const parsed = (url: string) => {
    const address = readConfig({ DATABASE_URL: url }).databaseAddress;
    assert.ok(address);
    const hosts = address.hosts.map(({ host, port }) => `${host} ${port}`);
    return [hosts, address.user, address.password, address.database];
  };
  const accepted: Readonly<Record<string, unknown>> = {
    'postgres://u:p%40@h1:1,[::1]:2,/x': [['h1 1', '::1 2', 'localhost 5432'], 'u', 'p@', 'x'],
    'postgresql://u:a@b#c:d@h/x': [['h 5432'], 'u', 'a@b#c:d', 'x'],
    'postgres:///x?host=%2Frun%2Fpg&port=7&user=v&password=w': [['/run/pg 7'], 'v', 'w', 'x'],
    'postgres://%2Frun%2Fa%3Ab/x': [['/run/a:b 5432'], undefined, undefined, 'x'],
    'postgres://h?dbname=y': [['h 5432'], undefined, undefined, 'y'],
    'postgres://h/y?host=a,b&port=5': [['a 5', 'b 5'], undefined, undefined, 'y'],
    'postgres://h/y?host=a,b&port=1,65535': [['a 1', 'b 65535'], undefined, undefined, 'y'],
    'postgres://u:p:q@h/x%20y': [['h 5432'], 'u', 'p:q', 'x y'],
    'postgres://u:p@h/x?user=v&password=w&dbname=z': [['h 5432'], 'v', 'w', 'z'],
    'postgres://u:p@h:7/x?user=&password=&dbname=&host=&port=': [['h 7'], 'u', 'p', 'x'],
  };
  for (const [url, expected] of Object.entries(accepted)) assert.deepEqual(parsed(url), expected, url);
  const others = (query: string) => {
    const { applicationName, options, connectTimeoutMs, target } = parseAddress(`postgres://h/x?${query}`);
    return { applicationName, options, connectTimeoutMs, target };
  };
  const none = { applicationName: undefined, options: undefined, connectTimeoutMs: undefined, target: 'any' };
  assert.deepEqual(others('connect_timeout=0'), none);
  assert.deepEqual(
    others('application_name=a%20b&options=-c%20jit=on&connect_timeout=7&target_session_attrs=primary'),
    { applicationName: 'a b', options: '-c jit=on', connectTimeoutMs: 7000, target: 'primary' },
  );
  const [socket, host] = parseAddress('postgres:///x?host=/run/pg,h&sslmode=require').hosts;
  assert.deepEqual(socket?.encryption, [false], 'connections over a socket are not encrypted');
  assert.equal(host?.encryption.includes(false), false);
  const several = parseAddress('postgres://u:p@h1:1,[::1]:2,/x');
  assert.equal(describeAddress(several), 'h1:1,[::1]:2,localhost:5432/x');
});
