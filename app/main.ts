// The command line: one for the instance; each command honours the server's environment.
import { tolerateCutOutput } from './cut-output.ts';
import { asksOnlyWhat, outlined } from './outline.ts';
import { version } from './version.ts';

tolerateCutOutput();
const given = process.argv.slice(2);
if (asksOnlyWhat(given)) outlined(version).parse();
else {
  const { makeProgram } = await import('./program.ts');
  await (await makeProgram(given[0])).parseAsync();
}
