// The conformance suite of the Model Context Protocol: its scenarios for servers and for authorization servers.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createServer, request as sendRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { sendMessage } from '../support/agents.ts';
import { administratorOf, signIn } from '../support/forms.ts';
import {
  drivers,
  type Instance,
  type Organization,
  startInstance,
  temporaryFolder,
} from '../support/instance.ts';
import { type ClientHost, decide, oauthSettings, startClientHost } from '../support/oauth-client.ts';
import { freePort } from '../support/postgres.ts';
import { type Process, start, until } from '../support/process.ts';
import { patienceMs } from '../support/promised.ts';

const program = join(
  import.meta.dirname,
  '../clients/node_modules/@modelcontextprotocol/conformance/dist/index.js',
);
const slowTimers = new URL('../support/slow-timers.mjs', import.meta.url).href;
const skip = !existsSync(program) && 'needs npm ci --prefix test/clients';

/** Scenarios of which every check passes. */
const passing = [
  'server-initialize',
  'ping',
  'tools-list',
  'resources-list',
  'sep-2164-resource-not-found',
  'prompts-list',
  'dns-rebinding-protection',
  'caching',
  'http-header-validation',
  'input-required-result-unsupported-methods',
  'input-required-result-validate-input',
];

/** Checks that cannot pass, by scenario, and what the suite reports about them. */
interface Exclusion {
  readonly reason: string;
  readonly report: RegExp;
  readonly checks: Readonly<Record<string, readonly string[]>>;
}

const exclusions: readonly Exclusion[] = [
  {
    reason: 'The scenario calls a tool that only servers for the suite have.',
    report: /Unknown tool "test_|Tool 'json_schema_2020_12_tool' not found|does not list the diagnostic tool/,
    checks: {
      'tools-call-simple-text': ['tools-call-simple-text'],
      'tools-call-image': ['tools-call-image'],
      'tools-call-audio': ['tools-call-audio'],
      'tools-call-embedded-resource': ['tools-call-embedded-resource'],
      'tools-call-mixed-content': ['tools-call-mixed-content'],
      'tools-call-error': ['tools-call-error'],
      'tools-call-with-progress': ['tools-call-with-progress'],
      'tools-call-sampling': ['tools-call-sampling'],
      'tools-call-elicitation': ['tools-call-elicitation'],
      'elicitation-sep1034-defaults': ['elicitation-sep1034-general'],
      'elicitation-sep1330-enums': ['elicitation-sep1330-general'],
      'json-schema-2020-12': ['json-schema-2020-12-tool-found'],
      'server-stateless': [
        'sep-2575-server-rejects-undeclared-capability',
        'sep-2575-missing-capability-http-400',
        'sep-2575-http-server-no-independent-requests-on-stream',
        'sep-2575-server-no-log-without-loglevel',
      ],
      'input-required-result-basic-elicitation': ['sep-2322-elicitation-incomplete'],
      'input-required-result-basic-list-roots': ['sep-2322-list-roots-incomplete'],
      'input-required-result-basic-sampling': ['sep-2322-sampling-incomplete'],
      'input-required-result-capability-check': ['sep-2322-respect-client-capabilities'],
      'input-required-result-ignore-extra-params': ['sep-2322-ignore-unexpected-params'],
      'input-required-result-multiple-input-requests': ['sep-2322-multiple-inputs-incomplete'],
      'input-required-result-request-state': ['sep-2322-request-state-incomplete'],
      'input-required-result-result-type': ['sep-2322-result-type-included'],
    },
  },
  {
    reason: 'No tool asks the client for input, so no result requires any.',
    report: /InputRequiredResult/,
    checks: {
      'input-required-result-missing-input-response': ['sep-2322-missing-response-rerequests'],
      'input-required-result-multi-round': ['sep-2322-multi-round-r1'],
      'input-required-result-tampered-state': ['sep-2322-reject-tampered-state'],
    },
  },
  {
    reason: 'No parameter of a tool is a header.',
    report: /no tool with x-mcp-header annotations/,
    checks: {
      'http-custom-header-server-validation': [
        'sep-2243-server-no-xmcp-tool',
        'sep-2243-server-decode-base64',
        'sep-2243-server-validate-param-match',
        'sep-2243-server-reject-invalid-param-chars',
        'sep-2243-server-reject-param-mismatch',
      ],
    },
  },
  {
    reason: 'The scenario gets a prompt that only servers for the suite have.',
    report: /Unknown prompt "test_/,
    checks: {
      'prompts-get-simple': ['prompts-get-simple'],
      'prompts-get-with-args': ['prompts-get-with-args'],
      'prompts-get-embedded-resource': ['prompts-get-embedded-resource'],
      'prompts-get-with-image': ['prompts-get-with-image'],
      'input-required-result-non-tool-request': ['sep-2322-non-tool-incomplete'],
    },
  },
  {
    reason: 'The scenario reads a resource that only servers for the suite have.',
    report: /Resource not found: test:\/\//,
    checks: {
      'resources-read-text': ['resources-read-text'],
      'resources-read-binary': ['resources-read-binary'],
      'resources-templates-read': ['resources-templates-read'],
    },
  },
  {
    reason: 'The server does not declare the capability: completions, logging or subscriptions to resources.',
    report: /Method not found/,
    checks: {
      'completion-complete': ['completion-complete'],
      'logging-set-level': ['logging-set-level'],
      'tools-call-with-logging': ['tools-call-with-logging'],
      'resources-subscribe': ['resources-subscribe'],
      'resources-unsubscribe': ['resources-unsubscribe'],
    },
  },
  {
    reason: 'Lists never change while the instance runs, so the server does not declare subscriptions.',
    report: /no subscription-delivered capability|did not declare (prompts|tools)\.listChanged/,
    checks: {
      'server-stateless': [
        'sep-2575-server-sends-subscription-ack',
        'sep-2575-server-tags-subscription-id',
        'sep-2575-server-honors-notification-filter',
        'sep-2575-server-sends-prompts-list-changed-on-subscription',
        'sep-2575-server-sends-tools-list-changed-on-subscription',
      ],
    },
  },
  {
    reason: 'The server has no sessions, and therefore no streams to resume.',
    report: /did not (provide|return)( an MCP-Session-Id| session ID)/,
    checks: {
      'server-session-lifecycle': ['server-session-lifecycle-skipped'],
      'server-sse-polling': ['server-sse-polling-session'],
      'server-sse-multiple-streams': ['server-sse-multiple-streams-session'],
    },
  },
];

/** Scenarios of extensions. The server does not declare any extension. */
const extensions = [
  'sep-2640-skills-directory',
  'sep-2640-skills-enumeration',
  'sep-2640-skills-manifest',
  'tasks-lifecycle',
  'tasks-capability-negotiation',
  'tasks-wire-fields',
  'tasks-request-state-removal',
  'tasks-mrtr-input',
  'tasks-request-headers',
  'tasks-dispatch-and-envelope',
  'tasks-status-notifications',
  'tasks-required-task-error',
  'tasks-mrtr-composition',
];

/** A check of a scenario, as the suite stores it. */
interface Check {
  readonly scenario: string;
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
  readonly errorMessage?: string;
  readonly details?: unknown;
}

const folder = temporaryFolder();
process.on('exit', folder.remove);

/** Starts the suite. */
const startSuite = (...args: readonly string[]): Process =>
  start(args, {}, { program: ['--import', slowTimers, program] });

/** Runs scenarios to the end. @returns their checks */
async function runSuite(name: string, ...args: readonly string[]): Promise<readonly Check[]> {
  const output = join(folder.path, name);
  const { stdout, stderr } = await startSuite(...args, '--output-dir', output).ended;
  assert.ok(existsSync(output), stdout + stderr);
  return checksIn(output);
}

/** Reads the checks in a folder, which has a folder for each scenario, named after the scenario and the time. */
const checksIn = (output: string): readonly Check[] =>
  readdirSync(output).flatMap((name) => {
    const [, scenario = ''] =
      /^(?:server|authorization-server)-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/.exec(name) ?? [];
    const text = readFileSync(join(output, name, 'checks.json'), 'utf8');
    return (JSON.parse(text) as readonly Check[]).map((check) => ({ ...check, scenario }));
  });

const key = ({ scenario, id }: Pick<Check, 'scenario' | 'id'>): string => `${scenario}: ${id}`;

/** Returns the checks that have not passed. Information counts as such if a scenario checks nothing. */
function notPassed(checks: readonly Check[]): readonly Check[] {
  const checked = new Set(checks.filter(({ status }) => status === 'SUCCESS').map((check) => check.scenario));
  const isInformation = /^(outgoing-request|incoming-response|server-sse-content-type)$/;
  return checks.filter(
    ({ id, scenario, status }) =>
      status !== 'SUCCESS' && (status !== 'INFO' || !(checked.has(scenario) || isInformation.test(id))),
  );
}

/** A proxy that adds a key to requests, because the suite cannot send one. */
interface Proxy {
  readonly url: string;
  readonly close: () => Promise<void>;
}

async function startProxy(target: string, secret: string): Promise<Proxy> {
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const onward = sendRequest(target + url, {
      method,
      headers: { ...headers, authorization: `Bearer ${secret}` },
    });
    onward.on('error', () => response.destroy());
    onward.on('response', (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('the conformance suite', { skip }, () => {
  let instance: Instance;
  let acme: Organization;
  let host: ClientHost;
  let proxy: Proxy;
  before(async () => {
    host = await startClientHost();
    const { environment } = oauthSettings([host.port]);
    instance = await startInstance(drivers.at(-1) ?? 'postgresql', { environment });
    acme = await instance.organization('acme');
    proxy = await startProxy(instance.url, acme.key);
  });
  after(async () => {
    await proxy.close();
    await instance.close();
    await host.close();
  });

  test('every check of the server passes, except listed ones', async () => {
    const checks: Check[] = [];
    for (const revision of ['2025-11-25', '2026-07-28'])
      checks.push(
        ...(await runSuite(
          revision,
          ...['server', '--url', `${proxy.url}/mcp`, '--suite', 'all', '--spec-version', revision],
          ...['--timeout', String(patienceMs)],
        )),
      );
    const excluded = new Map(
      exclusions.flatMap(({ report, checks: excludedChecks }) =>
        Object.entries(excludedChecks).flatMap(([scenario, ids]) =>
          ids.map((id) => [key({ scenario, id }), report] as const),
        ),
      ),
    );
    const failed = notPassed(checks);
    for (const check of failed) {
      const report = `${check.errorMessage} ${JSON.stringify(check.details)}`;
      assert.match(report, excluded.get(key(check)) ?? /^passed$/, `${key(check)}: ${check.status}`);
    }
    assert.deepEqual(
      [...new Set(failed.map(key))].sort(),
      [...excluded.keys()].sort(),
      'outdated exclusions',
    );
    const scenarios = exclusions.flatMap(({ checks: excludedChecks }) => Object.keys(excludedChecks));
    assert.deepEqual(
      [...new Set(checks.map(({ scenario }) => scenario))].sort(),
      [...new Set([...passing, ...scenarios])].sort(),
      'all scenarios',
    );
    for (const scenario of passing) {
      const passed = checks.filter((check) => check.scenario === scenario && check.status === 'SUCCESS');
      assert.ok(
        passed.some(({ id }) => id !== 'wire-schema-valid'),
        `${scenario} checks the server`,
      );
    }
  });

  test('scenarios of extensions do not apply, because the server declares none', async () => {
    const { stdout } = await startSuite('list', '--server').ended;
    const listed = [...stdout.matchAll(/^ +- (\S+) \[extension\]$/gm)].map(([, name]) => name);
    assert.deepEqual(listed, extensions);
    const { json } = await sendMessage(
      instance,
      acme.key,
      {
        method: 'server/discover',
        params: {
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      },
      { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' },
    );
    const { capabilities } = json.result as { readonly capabilities: object };
    assert.deepEqual(capabilities, { tools: {}, resources: {}, prompts: {} });
  });

  test('every check of the authorization server passes', async () => {
    const { stdout } = await startSuite('list', '--authorization').ended;
    const listed = [...stdout.matchAll(/^ +- (\S+) \[/gm)].map(([, name]) => name);
    assert.deepEqual(listed, ['authorization-server-metadata-endpoint', 'authorization-code-grant']);

    const port = await freePort();
    const client = host.serve('/conformance.json', { redirect_uris: [`http://127.0.0.1/callback`] });
    const output = join(folder.path, 'authorization');
    const suite = startSuite(
      ...['authorization', '--url', instance.url, '--client-id', client],
      ...['--resource', `${instance.url}/mcp`, '--port', String(port), '--output-dir', output],
    );
    // The suite prints the URL that a user opens in a browser, and listens for the code.
    const page = () => /^http\S+\/oauth\/authorize\?\S+$/m.exec(suite.stdout())?.[0];
    await until(() => page() !== undefined && suite.stdout().includes('Callback server started'), 'the URL');
    const browser = await signIn(instance, administratorOf(acme));
    const start = await browser.get((page() ?? '').slice(instance.url.length));
    const consentPage = await browser.get(start.headers.get('location') ?? '');
    const consented = await decide(browser, consentPage);
    const callback = consented.headers.get('location') ?? '';
    assert.ok(callback.startsWith(`http://127.0.0.1:${port}/callback?`), consented.text);
    await (await fetch(callback)).text();
    const ended = await suite.ended;
    assert.equal(ended.code, 0, ended.stdout + ended.stderr);
    assert.deepEqual(
      checksIn(output).map(({ id, status }) => `${id}: ${status}`),
      [
        'authorization-code-grant: SUCCESS',
        'authorization-server-metadata: SUCCESS',
        'authorization-server-metadata-cimd: SUCCESS',
      ],
    );
  });
});
