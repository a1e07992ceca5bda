// The command line: one for the instance; each command honours the server's environment.
import { asksOnlyWhat, outlined } from './outline.ts';
import { version } from './version.ts';

if (asksOnlyWhat(process.argv.slice(2))) outlined(version).parse();
else {
  const { makeProgram } = await import('./program.ts');
  await makeProgram().parseAsync();
}
