// Deployment files: the Dockerfile, compose.yaml and the systemd unit are valid and as restrictive as
// documented.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { DCLinter } from 'dclint';
import { validate } from 'dockerfile-utils';
import { parse } from 'yaml';
import { variables } from '../../app/variables.ts';
import { project } from '../support/process.ts';

const read = (name: string) => readFileSync(join(project, name), 'utf8');
const dockerfile = read('Dockerfile');
const known = Object.values(variables).map(({ name }) => name);
/** Returns the names of variables that the service would ignore. */
const unknownIn = (names: readonly string[]) =>
  names.filter((name) => !/^NODE_/.test(name) && name !== 'PUBLIC_URL' && !known.includes(name));

/** The linter's messages for a file. */
interface Linted {
  readonly messages: readonly { readonly line: number; readonly message: string }[];
}

interface Service {
  readonly image?: string;
  readonly build?: { readonly target: string };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly environment: Readonly<Record<string, string>>;
  readonly read_only?: boolean;
  readonly volumes?: readonly string[];
}
const { services } = parse(read('compose.yaml')) as { services: Readonly<Record<string, Service>> };

describe('the Dockerfile', () => {
  /** The stages, by name. */
  const stages = new Map(
    dockerfile
      .split(/^FROM /m)
      .slice(1)
      .map((text) => [/ AS (\w+)/.exec(text)?.[1] ?? '', text]),
  );

  test('has no lint errors', () => assert.deepEqual(validate(dockerfile), []));

  test('copies files that exist and are not ignored', () => {
    const allowed = read('.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    for (const name of allowed) assert.ok(existsSync(join(project, name)), name);
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)]
      .flatMap(([, names = '']) => names.split(' '))
      .filter((name) => name !== '.');
    for (const name of copied) {
      assert.ok(existsSync(join(project, name)), name);
      assert.ok(allowed.includes(name.split('/')[0] ?? ''), `${name} is ignored`);
    }
  });

  test('does not run as root and has a health check without additional programs', () => {
    for (const name of ['service', 'pooler']) {
      const stage = stages.get(name) ?? '';
      assert.match(stage, /^USER (?!root|0)\w+$/m, name);
      assert.match(stage, /^HEALTHCHECK .*/m, name);
      assert.doesNotMatch(stage, /curl|wget/, name);
    }
    const set = /^ENV ([\s\S]*?[^\\])$/m.exec(stages.get('service') ?? '')?.[1] ?? '';
    assert.deepEqual(unknownIn([...set.matchAll(/(\w+)=/g)].map(([, name = '']) => name)), []);
  });
});

describe('compose.yaml', () => {
  test('has no lint errors', () => {
    const rules = Object.fromEntries(
      [
        'require-quotes-in-ports',
        'service-keys-order',
        'services-alphabetical-order',
        'top-level-properties-order',
      ].map((rule) => [rule, 0 as const]),
    );
    const linter = new DCLinter({ rules, quiet: true, debug: false, exclude: [] });
    const found: readonly Linted[] = linter.lintFiles([join(project, 'compose.yaml')], false);
    const messages = found.flatMap(({ messages }) =>
      messages.map(({ line, message }) => `${line}: ${message}`),
    );
    assert.deepEqual([found.length, messages], [1, []]);
  });

  test("uses the Dockerfile's stages, waits for healthy services and sets known variables", () => {
    for (const { build, depends_on = {}, volumes = [] } of Object.values(services)) {
      if (build) assert.match(dockerfile, new RegExp(` AS ${build.target}$`, 'm'));
      for (const { condition } of Object.values(depends_on)) assert.equal(condition, 'service_healthy');
      for (const path of volumes.filter((each) => each.startsWith('./'))) {
        assert.ok(existsSync(join(project, path.split(':')[0] ?? '')), path);
      }
    }
    const { crm, pooler } = services;
    assert.deepEqual([crm?.read_only, pooler?.read_only], [true, true]);
    assert.deepEqual(unknownIn(Object.keys(crm?.environment ?? {})), []);
  });

  test('contains no secrets and takes each from the environment', () => {
    for (const { environment } of Object.values(services)) {
      for (const [name, value] of Object.entries(environment)) {
        if (/PASSWORD|SECRET|_URL$/.test(name)) assert.match(value, /\$\{\w+:[?-]/, name);
      }
    }
  });
});

describe('the systemd unit', () => {
  const unit = read('deploy/crm.service');

  test('runs as its own user with write access only to its state', () => {
    for (const line of [
      'DynamicUser=yes',
      'ProtectSystem=strict',
      'StateDirectory=crm',
      'NoNewPrivileges=yes',
    ])
      assert.ok(unit.split('\n').includes(line), line);
    const set = /^Environment=(.*)$/m.exec(unit)?.[1] ?? '';
    assert.deepEqual(unknownIn([...set.matchAll(/(\w+)=/g)].map(([, name = '']) => name)), []);
  });

  const analyzer = '/usr/bin/systemd-analyze';
  test('has no errors', { skip: !existsSync(analyzer) && 'no systemd here' }, () => {
    const file = join(project, 'deploy/crm.service');
    const run = (...args: string[]) =>
      execFileSync(analyzer, [...args, file], { encoding: 'utf8', stdio: 'pipe' });
    try {
      run('verify');
    } catch (cause) {
      // The program exists only on machines where the unit is installed.
      const lines = String((cause as { stderr: string }).stderr)
        .trim()
        .split('\n');
      assert.deepEqual(
        lines.filter((line) => !/Command \/usr\/bin\/node is not executable/.test(line)),
        [],
      );
    }
    assert.match(run('security', '--offline=true', '--threshold=20'), /Overall exposure level .*: 1\.\d/);
  });
});
