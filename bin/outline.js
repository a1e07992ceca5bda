// Writes app/outline.json, from which help and completion are made without loading the code of the commands.
import { writeFileSync } from 'node:fs';
import { outlineText } from '../app/outline.ts';
import { makeProgram } from '../app/program.ts';

writeFileSync(new URL('../app/outline.json', import.meta.url), outlineText(await makeProgram()));
