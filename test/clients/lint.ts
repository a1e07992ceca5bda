// Prints linters' and parsers' findings for an OpenAPI document, one per line: node lint.ts <document.json>
import { readFileSync } from 'node:fs';
import SwaggerParser from '@apidevtools/swagger-parser';
import { validate } from '@readme/openapi-parser';
import { createConfig, lint } from '@redocly/openapi-core';
import spectral from '@stoplight/spectral-core';
import { oas } from '@stoplight/spectral-rulesets';

const [file = ''] = process.argv.slice(2);
const text = readFileSync(file, 'utf8');
const document = () => JSON.parse(text);

const redocly = await lint({ ref: file, config: await createConfig({ extends: ['recommended-strict'] }) });
for (const { ruleId, message, location } of redocly) {
  console.log(`Redocly ${ruleId}: ${message} ${location.map(({ pointer }) => pointer).join(' ')}`);
}

const linter = new spectral.Spectral();
linter.setRuleset({ extends: [[oas, 'recommended']] });
for (const { code, message, path } of await linter.run(document())) {
  console.log(`Spectral ${code}: ${message} ${path.join('.')}`);
}

await SwaggerParser.validate(document()).catch((cause) => console.log(`swagger-parser: ${cause.message}`));

const parsed = await validate(document());
for (const { message } of [...(parsed.valid ? [] : parsed.errors), ...parsed.warnings]) {
  console.log(`@readme/openapi-parser: ${message}`);
}
