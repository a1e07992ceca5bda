// Hosts that are this machine, for which cookies, email and provider logins do not need TLS.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isLoopback } from '../../engine/loopback.ts';

const here = [
  ...['localhost', 'LocalHost', 'localhost.'],
  ...['127.0.0.1', '127.0.0.1.', '127.255.255.254', '127.1', '0x7f.1', '2130706433', '0177.0.0.1'],
  ...['::1', '[::1]', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1', '[::ffff:127.0.0.1]', '::ffff:7f00:1'],
];
const elsewhere = [
  ...[
    '',
    '.',
    '[]',
    'localhost.example.com',
    'localhost.localdomain',
    'crm.localhost',
    'a.b.localhost.',
    'notlocalhost',
    'example.com',
  ],
  ...['0.0.0.0', '0', '::', '128.0.0.1', '126.255.255.255', '10.0.0.1', '192.168.0.1', '1.0.0.127'],
  ...['127.0.0.1.example.com', '127.0.0.256', '127.0.0.0.1', '::2', '[::2]', '::ffff:128.0.0.1', 'fe80::1'],
  ...['localhost:80', 'localhost/a', 'localhost#.example.com', 'user@localhost', 'localhost example.com'],
];

for (const host of here) test(`${host} is this machine`, () => assert.equal(isLoopback(host), true));
for (const host of elsewhere)
  test(`${host === '' ? 'nothing' : host} is another machine`, () => assert.equal(isLoopback(host), false));
