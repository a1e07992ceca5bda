// Prints the findings of n8n's linters for a package, one per line: node lint.ts <folder>
//
// The linters recognize nodes and credentials by the types in their TypeScript source. The package is JavaScript with the
// same types in comments, so the test lints a copy in which they are annotations.
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { n8nCommunityNodesPlugin } from '@n8n/eslint-plugin-community-nodes';
import parser from '@typescript-eslint/parser';
import { ESLint } from 'eslint';
import nodesBase from 'eslint-plugin-n8n-nodes-base';

const [folder = ''] = process.argv.slice(2);

/** Returns JavaScript as TypeScript: types in comments become annotations. */
const annotated = (source: string): string =>
  source
    .replace(/\/\*\* @implements \{(\w+)\} \*\/\nclass (\S+)/g, 'class $2 implements $1')
    .replace(/\/\*\* @type \{(\w+(?:\[\])?)\} \*\/\n( *(?:const )?\w+) =/g, '$2: $1 =');

/** Rules that n8n's own configuration for community nodes disables (@n8n/node-cli). */
const disabled = Object.fromEntries(
  [
    'cred-class-field-documentation-url-miscased',
    'cred-class-field-type-options-password-missing',
    'node-class-description-inputs-wrong-regular-node',
    'node-class-description-outputs-wrong',
    'node-param-type-options-max-value-present',
  ].map((rule) => [`n8n-nodes-base/${rule}`, 'off' as const]),
);

const copy = mkdtempSync(join(tmpdir(), 'crm-n8n-'));
try {
  cpSync(folder, copy, { recursive: true });
  cpSync(join(copy, 'dist'), copy, { recursive: true });
  rmSync(join(copy, 'dist'), { recursive: true });
  for (const file of globSync('{credentials,nodes}/**/*.js', { cwd: copy })) {
    writeFileSync(
      join(copy, file.replace(/\.js$/, '.ts')),
      annotated(readFileSync(join(copy, file), 'utf8')),
    );
    rmSync(join(copy, file));
  }
  const { credentials, nodes, community } = nodesBase.configs;
  const linter = new ESLint({
    cwd: copy,
    overrideConfigFile: true,
    overrideConfig: [
      { ...n8nCommunityNodesPlugin.configs.recommended, files: ['**/*.ts', 'package.json'] },
      {
        files: ['**/*.ts', 'package.json'],
        languageOptions: { parser, parserOptions: { extraFileExtensions: ['.json'] } },
        plugins: { 'n8n-nodes-base': nodesBase },
        linterOptions: { reportUnusedDisableDirectives: 'error' },
      },
      { files: ['package.json'], rules: community.rules },
      { files: ['credentials/**/*.ts'], rules: { ...credentials.rules, ...disabled } },
      { files: ['nodes/**/*.ts'], rules: { ...nodes.rules, ...disabled } },
    ],
  });
  for (const { filePath, messages } of await linter.lintFiles(['**/*.ts', 'package.json']))
    for (const { ruleId, line, message } of messages)
      console.log(`${filePath.slice(copy.length + 1)}:${line} ${ruleId}: ${message}`);
} finally {
  rmSync(copy, { recursive: true });
}
