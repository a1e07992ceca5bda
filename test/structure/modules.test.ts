// What every module in the registry guarantees. New modules are covered automatically.
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Command } from '@commander-js/extra-typings';
import { checksOf } from '../../app/commands/checks.ts';
import { modules } from '../../app/modules.ts';
import { variables } from '../../app/variables.ts';
import { effectVariables } from '../../engine/effects/effects.ts';
import { type Route, routesOf } from '../support/hostile/routes.ts';
import { type Instance, startInstance } from '../support/instance.ts';
import { project } from '../support/process.ts';

const administrators = readFileSync(join(project, 'docs/administrators.md'), 'utf8');
const pages = ['administrators', 'api', 'maintainers', 'partners']
  .map((name) => readFileSync(join(project, `docs/${name}.md`), 'utf8'))
  .join('\n');

test('the variables of effects are read and documented', () => {
  for (const [name, variable] of Object.entries(effectVariables)) {
    assert.equal(variables[name as keyof typeof variables], variable);
    assert.ok(administrators.includes(`\`${variable.name}\``));
  }
});

test('checks have unique names and list each dependency once', () => {
  const checks = checksOf({ modules });
  const names = checks.map(({ name }) => name);
  assert.deepEqual([...new Set(names)], names);
  for (const { name, needs } of checks) assert.deepEqual([...new Set(needs)], needs, name);
});

for (const { name, tables = [], variables: own = {}, openApi, commands } of modules) {
  describe(`the module ${name}`, () => {
    test('has the name of its folder', () => {
      const folders = globSync(`{plugins,webhooks}/{,*/}${name}/index.ts`, { cwd: project });
      assert.equal(folders.length, 1, name);
    });

    test('has tables that start with crm_ and are not used by other modules', () => {
      for (const { meta } of tables) {
        assert.match(meta.tableName, /^crm_[a-z_]+$/);
        const owners = modules.filter(({ tables: all = [] }) =>
          all.some((each) => each.meta.tableName === meta.tableName),
        );
        assert.deepEqual(
          owners.map((module) => module.name),
          [name],
        );
      }
    });

    test('has variables that are read and documented', () => {
      for (const [key, variable] of Object.entries(own)) {
        assert.equal(variables[key as keyof typeof variables], variable, `${variable.name} is not read`);
        assert.match(administrators, new RegExp(`\`${variable.name}\``));
      }
    });

    test('has commands with a description, JSON output and documentation', async () => {
      const program = new Command('crm');
      const nothing = () => assert.fail('describing a command runs nothing');
      await commands?.({ program, config: nothing, run: nothing, withInstance: nothing });
      const all = program.commands.flatMap((command) =>
        command.commands.length === 0
          ? [[command.name(), command] as const]
          : command.commands.map((below) => [`${command.name()} ${below.name()}`, below] as const),
      );
      assert.equal(all.length > 0, commands !== undefined);
      for (const [words, command] of all) {
        assert.notEqual(command.description(), '', words);
        assert.ok(
          command.options.some(({ long }) => long === '--json'),
          `${words} has no --json`,
        );
        assert.ok(administrators.includes(`\`${words}`), `${words} is not in docs/administrators.md`);
      }
    });

    test('describes operations with unique names', () => {
      const names = [...modules.values()].flatMap(({ openApi: each }) => operationIds(each));
      for (const id of operationIds(openApi)) assert.equal(names.filter((each) => each === id).length, 1, id);
    });
  });
}

/** Returns the operation names in an OpenAPI fragment. */
const operationIds = (fragment: (typeof modules)[number]['openApi']): string[] =>
  Object.values(
    (typeof fragment === 'function' ? fragment([], { hasHooks: false, actions: [] }) : fragment)?.paths ?? {},
  ).flatMap((path) =>
    Object.values(path as Readonly<Record<string, { readonly operationId?: string }>>).flatMap(
      ({ operationId = [] }) => operationId,
    ),
  );

describe('module routes', () => {
  let instance: Instance;
  let routes: readonly Route[];
  before(async () => {
    const found = await routesOf(() => startInstance('embedded'));
    instance = found.built;
    routes = found.routes(instance.app);
  });
  after(() => instance.close());

  test('are in the description or the documentation', async () => {
    const document = (await instance.call('GET /docs/openapi.json')).json as {
      paths: Record<string, unknown>;
    };
    const missing = routes.filter(({ url }) => {
      if (/^\/(?:setup|docs)(?:\/|$)/.test(url)) return false;
      const path = url.replaceAll(/:(\w+)/g, '{$1}');
      // The page lists the providers and names their URL once.
      const words = url
        .replace(/\/:.*$/, '')
        .replace(/^(\/webhooks\/channels)\/([\w-]+)$/, (all, start, provider) =>
          pages.includes(`\`${provider}\``) ? `${start}/<provider>` : all,
        );
      return !Object.hasOwn(document.paths, path) && !pages.includes(words);
    });
    assert.deepEqual(
      missing.map(({ url }) => url),
      [],
    );
    assert.ok(routes.length > 50);
  });
});
