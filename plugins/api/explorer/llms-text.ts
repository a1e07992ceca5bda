import { errorCodesPath, formatCount } from '../../../engine/errors.ts';
import { apiPrefix } from '../../../engine/http/index.ts';
import { maxItems } from '../../../engine/records/index.ts';
import { type OpenApiDocument, resourcesIn } from './document.ts';

/** Returns the first sentence of a description. */
const firstSentence = (description: string): string =>
  /^.*?[.](?=\s|$)/s.exec(description)?.[0] ?? description;

/** Generates an instance's `/llms.txt` (llmstxt.org), which introduces the API to language models, from its OpenAPI document. */
export function llmsText(document: OpenApiDocument): string {
  const { info } = document;
  const resources = resourcesIn(document);
  const lines = [
    `# ${info.title}`,
    '',
    `> ${info.summary} A REST API with JSON for ${resources.map(({ name }) => name).join(', ')}.`,
    '',
    '- Authenticate with an organization API key: `Authorization: Bearer <key>`. Ask a user for the key, because programs cannot create one.',
    `- Paths: \`GET\` and \`POST ${apiPrefix}/R\`; \`GET\`, \`PUT\`, \`PATCH\` and \`DELETE ${apiPrefix}/R/{id}\`, where R is a resource below.`,
    `- Lists: \`${apiPrefix}/R?q=text&field=value&field[op]=value&sort=field&dir=desc&fields=a,b&expand=reference\`. Follow \`rel="next"\` in \`Link\`. \`Prefer: count=exact\` returns \`X-Total-Count\`.`,
    `- Counts and sums: \`GET ${apiPrefix}/R/aggregate?group_by=field&measure=count()\`, for resources with declared aggregates.`,
    `- Conditions with \`any\` and \`not\`: \`POST ${apiPrefix}/R/query\` with \`{"where":{"any":[{"field":"…","op":"eq","value":"…"}]},"sort":"a,-b"}\`.`,
    `- Several records: \`POST\`, \`PATCH\` and \`DELETE ${apiPrefix}/R/batch\`, up to ${formatCount(maxItems)} records. All records that match filters: \`PATCH\` and \`DELETE ${apiPrefix}/R?field=value\` with \`Prefer: bulk\`, twice.`,
    '- Send `Prefer: handling=strict`. Otherwise, unknown parameters and keys are ignored, so a mistyped filter returns every record.',
    '- Send an `Idempotency-Key` with creates, and `If-Match` with updates.',
    '- Errors are `{"error":"…","code":"…","hint":"…","request_id":"…"}`, or problem details (RFC 9457) with `Accept: application/problem+json`. `hint` says what to change.',
    '- Changes: `GET /events?after=<cursor>` lists all changes, including deletions. `POST /events/subscriptions` sends them to a URL.',
    '- `GET /auth/permissions` returns what the caller can do.',
    '- Agents: the Model Context Protocol at `POST /mcp`, with the same key or with OAuth, unless the operator has not enabled it (404). `docs/agents.md` in the package describes the tools and how clients connect.',
    '',
    '## Resources',
    '',
    ...resources.map(({ name, description }) => `- [${name}](/docs/${name}): ${firstSentence(description)}`),
    '',
    '## Descriptions',
    '',
    '- [OpenAPI](/docs/openapi.json): every operation with its parameters, bodies, responses and examples. Does not require a key.',
    '- [AsyncAPI](/docs/asyncapi.json): the events of subscriptions and of the change feed.',
    `- [Error codes](${errorCodesPath}): the meaning of each \`code\`.`,
    '- [Explorer](/docs): the same as pages.',
    '',
  ];
  return lines.join('\n');
}
