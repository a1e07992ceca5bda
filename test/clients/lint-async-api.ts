// Prints the AsyncAPI parser's errors and warnings for a document, one per line: node lint-async-api.ts <document.json>
import { readFileSync } from 'node:fs';
import { Parser } from '@asyncapi/parser';

const [file = ''] = process.argv.slice(2);
const { document, diagnostics } = await new Parser().parse(readFileSync(file, 'utf8'));
if (document === undefined) console.log('The document cannot be parsed.');
for (const { code, message, path, severity } of diagnostics) {
  // Hints, for example about newer versions of AsyncAPI, have a higher number.
  if (severity <= 1) console.log(`${code}: ${message} ${path.join('.')}`);
}
