// Entry point of the command line. Commands read the same environment variables as the server.

import { isAnsweredByReference, referenceProgram } from './commands/cli-reference.ts';
import { tolerateCutOutput } from './commands/cut-output.ts';
import { version } from './version.ts';

tolerateCutOutput();
const args = process.argv.slice(2);
if (isAnsweredByReference(args)) referenceProgram(version).parse();
else {
  const { buildProgram } = await import('./commands/program.ts');
  await (await buildProgram(args[0])).parseAsync();
}
