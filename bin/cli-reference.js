// Writes app/commands/cli-reference.json, from which help and completion are made without loading the code of the commands.
import { writeFileSync } from 'node:fs';
import { referenceText } from '../app/commands/cli-reference.ts';
import { buildProgram } from '../app/commands/program.ts';

writeFileSync(
  new URL('../app/commands/cli-reference.json', import.meta.url),
  referenceText(await buildProgram()),
);
