// Prints Redocly's findings for an OpenAPI 3.2 document, one per line: node lint-3-2.ts <document.json>
import { createConfig, lint } from '@redocly/openapi-core';

const [file = ''] = process.argv.slice(2);
const config = await createConfig({ extends: ['recommended-strict'] });
for (const { ruleId, message, location } of await lint({ ref: file, config })) {
  console.log(`${ruleId}: ${message} ${location.map(({ pointer }) => pointer).join(' ')}`);
}
