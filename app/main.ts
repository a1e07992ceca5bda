// The command line: one for the instance; each command honours the server's environment.

import { isAnsweredByReference, referenceProgram } from './commands/cli-reference.ts';
import { tolerateCutOutput } from './commands/cut-output.ts';
import { version } from './version.ts';

tolerateCutOutput();
const given = process.argv.slice(2);
if (isAnsweredByReference(given)) referenceProgram(version).parse();
else {
  const { buildProgram } = await import('./commands/program.ts');
  await (await buildProgram(given[0])).parseAsync();
}
