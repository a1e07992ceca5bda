import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { packageName } from '../../engine/config/index.ts';
import { fileReason, UserError } from '../../engine/errors.ts';
import { apiPrefix } from '../../engine/http/index.ts';
import type { CommandResult } from '../../engine/modules/index.ts';
import { withItem } from '../../engine/yaml/index.ts';
import { settingNames } from '../../webhooks/settings/index.ts';
import { loadConfig } from '../config.ts';
import { isModuleName, moduleNameRule } from '../module-shape.ts';

/**
 * Runs `new module`: writes a module with a route and a setting, its test and a page of documentation, and adds it to config.yaml.
 * @throws UserError if the name is invalid or in use, or a file already exists
 */
export async function createModule(name: string): Promise<CommandResult> {
  if (!isModuleName(name)) throw new UserError(`"${name}" must be ${moduleNameRule}.`);
  const { settingsFile, modules } = await loadConfig();
  if (modules.some((module) => module.name === name) || settingNames.includes(name))
    throw new UserError(`"${name}" is already the name of a module or a setting. Choose another name.`);
  const folder = dirname(settingsFile);
  const entry = `./modules/${name}.ts`;
  const files = {
    [`modules/${name}.ts`]: moduleText(name),
    [`modules/${name}.test.ts`]: testText(name),
    [`docs/${name}.md`]: pageText(name),
  };
  const existing = Object.keys(files).find((path) => existsSync(join(folder, path)));
  if (existing !== undefined)
    throw new UserError(`${join(folder, existing)} already exists. Choose another name.`);
  try {
    const text = await readFile(settingsFile, 'utf8');
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), content, { flag: 'wx' });
    }
    await writeFile(settingsFile, withItem(text, 'modules', entry));
  } catch (cause) {
    throw new UserError(`cannot write to ${folder}: ${fileReason(cause)}`, { cause });
  }
  return {
    json: { files: Object.keys(files), module: entry },
    text: `Created ${Object.keys(files).join(', ')}, and added ${entry} to config.yaml. Next: npm test`,
  };
}

const moduleText = (
  name: string,
): string => `import { apiPrefix, authorize, defineModule } from '${packageName}';

export default defineModule({
  name: '${name}',
  settings: (section) => {
    const { greeting = 'Hello' } = section as { greeting?: unknown };
    if (typeof greeting !== 'string') throw new Error('greeting must be a text');
    return { greeting };
  },
  register: (app, { moduleSettings }) => {
    app.get(\`\${apiPrefix}/${name}\`, { onRequest: authorize(app, '${name}', 'read') }, async () => ({
      greeting: moduleSettings().greeting,
    }));
  },
});
`;

const testText = (name: string): string => `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTestInstance } from '${packageName}';

test('GET ${apiPrefix}/${name} returns the greeting', async () => {
  const instance = await createTestInstance();
  try {
    const response = await instance.call('GET ${apiPrefix}/${name}');
    assert.equal(response.status, 200);
    assert.deepEqual(response.json(), { greeting: 'Hello' });
  } finally {
    await instance.close();
  }
});
`;

const pageText = (name: string): string => `# ${name}

What the module does, and for whom.

## Routes

- \`GET ${apiPrefix}/${name}\`: returns the greeting. The caller's profile needs the grant \`read\` on \`${name}\`.

## Settings

\`\`\`yaml
# config.yaml
${name}:
  greeting: Hello
\`\`\`
`;
