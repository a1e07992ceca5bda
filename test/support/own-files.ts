// Test support: a test's own copy of the definitions and migrations, as in a maintainer's clone.
import assert from 'node:assert/strict';
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from './instance.ts';
import { project } from './process.ts';

/** Copies the shipped definitions and migrations into a folder, where the test can edit them. */
export function ownFiles() {
  const { path, remove } = temporaryFolder();
  for (const folder of ['resources', 'migrations']) {
    cpSync(join(project, folder), join(path, folder), { recursive: true });
  }
  const file = (name: string) => join(path, 'resources', `${name}.yaml`);
  return {
    path,
    environment: { RESOURCES_DIR: join(path, 'resources'), MIGRATIONS_DIR: join(path, 'migrations') },
    /** Replaces text in a file. Fails if the file does not contain it. */
    edit: (name: string, from: string | RegExp, to: string) => {
      const text = readFileSync(file(name), 'utf8');
      const changed = text.replace(from, to);
      assert.notEqual(changed, text, `${name} does not contain ${from}`);
      writeFileSync(file(name), changed);
    },
    add: (name: string, text: string) => writeFileSync(file(name), text),
    drop: (name: string) => rmSync(file(name)),
    text: (name: string) => readFileSync(file(name), 'utf8'),
    migrations: () => readdirSync(join(path, 'migrations')).sort(),
    removeMigration: (file: string) => rmSync(join(path, 'migrations', file)),
    remove,
  };
}
export type OwnFiles = ReturnType<typeof ownFiles>;
