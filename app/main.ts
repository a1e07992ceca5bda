// The command line: one for the instance; each command honours the server's environment.
import { makeProgram } from './program.ts';

await makeProgram().parseAsync();
