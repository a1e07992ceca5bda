// Programs that are installed in folders of their own.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

/** Runs a program in a folder. @returns its output */
type RunProgram = (cwd: string, program: string, ...options: readonly string[]) => Promise<string>;

/** Returns a function that runs programs installed in `root`. */
export const programsIn =
  (root: string): RunProgram =>
  async (cwd, program, ...options) => {
    const PATH = `${join(root, 'node_modules/.bin')}:${dirname(process.execPath)}:${process.env.PATH}`;
    const { stdout } = await promisify(execFile)(program, options, {
      cwd,
      env: { ...process.env, PATH },
    }).catch(({ stdout = '', stderr = '' }) =>
      assert.fail(`${program} ${options.join(' ')}: ${stdout}${stderr}`),
    );
    return stdout;
  };
