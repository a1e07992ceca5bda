// Writes app/commands/cli-reference.json, which help and completion read instead of loading the code of all commands.
import { writeFileSync } from 'node:fs';
import { referenceText } from '../app/commands/cli-reference.ts';
import { buildProgram } from '../app/commands/program.ts';

writeFileSync(
  new URL('../app/commands/cli-reference.json', import.meta.url),
  referenceText(await buildProgram()),
);
