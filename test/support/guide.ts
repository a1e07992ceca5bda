// Pages with commands: runs them with sh and curl, in the order of the page, to compare their output with the printed one.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from './instance.ts';

/** A block of commands and the output that the page shows. */
export interface Step {
  readonly section: string;
  readonly commands: string;
  readonly shown: string | undefined;
}

/** Returns the blocks of commands on a page. */
export const stepsOf = (page: string): readonly Step[] =>
  page
    .split(/^## /m)
    .flatMap((section) =>
      [...section.matchAll(/^```sh\n([\s\S]*?)^```\n(?:\n```(?:json|http|csv|text)\n([\s\S]*?)^```)?/gm)].map(
        ([, commands = '', shown]) => ({ section: section.split('\n', 1)[0] ?? '', commands, shown }),
      ),
    );

/** Marks the end of a step's output. Follows the exit status of its last command. */
const end = '\x1e';

/** Converts printed output to a pattern that ignores white space and in which … matches anything. */
export const pattern = (shown: string): RegExp => {
  const literal = withoutSpaces(shown).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  return new RegExp(`^${literal.replaceAll('…', '.*?')}$`, 's');
};

export const withoutSpaces = (text: string): string => text.replace(/\s/g, '');

/** The output of a step and its exit status. */
interface Output {
  readonly output: string;
  readonly status: string | undefined;
}

/** Runs the steps in one shell, against an instance with this URL. @returns the output of each step */
export async function runSteps(steps: readonly Step[], url: string, key: string): Promise<readonly Output[]> {
  const folder = temporaryFolder();
  try {
    const script = steps
      .map(({ commands }) => `${commands}\nprintf '\\036%s\\036' $?\n`)
      .join('')
      .replaceAll('http://127.0.0.1:3000', url)
      .replaceAll('crm_…', key);
    writeFileSync(join(folder.path, '.curlrc'), 'silent\nshow-error\n');
    const { stdout } = await promisify(execFile)('sh', ['-c', script], {
      cwd: folder.path,
      env: { PATH: process.env.PATH, HOME: folder.path },
    });
    const outputs = stdout.split(end);
    return steps.map((_, index) => ({ output: outputs[2 * index] ?? '', status: outputs[2 * index + 1] }));
  } finally {
    folder.remove();
  }
}
