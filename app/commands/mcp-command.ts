import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import type { Environment } from '../../engine/config/index.ts';
import { UserError } from '../../engine/errors.ts';
import { type CommandLine, type CommandResult, jsonResult } from '../../engine/modules/index.ts';
import type { Instance } from '../services.ts';

/** Environment variable with the API key, which must not be visible in the list of processes. */
const keyVariable = 'CRM_API_KEY';

/** Adds the `mcp` command. */
export function mcpCommand({ program, run }: CommandLine<Instance>): void {
  program
    .command('mcp')
    .description(
      `connect an agent through standard input and output, with the API key in ${keyVariable}; needs no database`,
    )
    .option('--url <origin>', 'origin of the instance', 'http://127.0.0.1:3000')
    .addOption(jsonResult())
    .action(({ url, json }) => run(json, bridge(url)));
}

/** Runs `mcp`: forwards messages from standard input until it is closed. */
async function bridge(origin: string, environment: Environment = process.env): Promise<CommandResult> {
  if (!URL.canParse(origin))
    throw new UserError(`"${origin}" is not a URL, for example https://crm.example.`);
  const key = environment[keyVariable]?.trim() ?? '';
  if (key === '') throw new UserError(`${keyVariable} is not set. Set it to an API key of the instance.`);
  const forwarded = await forwardMessages(process.stdin, process.stdout, {
    url: new URL('/mcp', origin),
    key,
  });
  return { json: { forwarded }, text: '' };
}

/** The endpoint to which messages are forwarded. */
interface Endpoint {
  readonly url: URL;
  /** API key. */
  readonly key: string;
}

/** The parts of a JSON-RPC message that determine how it is forwarded. */
interface Message {
  readonly id?: string | number | null;
  readonly method?: string;
  readonly params?: {
    readonly name?: unknown;
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

/** Key of a message's metadata with the revision of the protocol, since the revision 2026-07-28. */
const versionKey = 'io.modelcontextprotocol/protocolVersion';

/**
 * Forwards messages, one per line, and writes the responses in the order in which they arrive.
 * @returns the number of forwarded messages
 */
export async function forwardMessages(
  input: Readable,
  output: Writable,
  endpoint: Endpoint,
): Promise<number> {
  const pending = new Set<Promise<void>>();
  let count = 0;
  let version: string | undefined;
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (line.trim() === '') continue;
    count++;
    const message = parseMessage(line);
    const sent = send(line, message, endpoint, version).then((response) => {
      if (message?.method === 'initialize') version = negotiatedVersion(response) ?? version;
      if (response !== '') output.write(`${response}\n`);
    });
    pending.add(sent);
    void sent.finally(() => pending.delete(sent));
    // The following messages have the revision that the response names.
    if (message?.method === 'initialize') await sent;
  }
  await Promise.all(pending);
  return count;
}

/** Parses a line, or returns undefined if it is not an object. The endpoint reports the error. */
function parseMessage(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the revision of the protocol in the response to `initialize`. */
const negotiatedVersion = (response: string): string | undefined =>
  (JSON.parse(response) as { readonly result?: { readonly protocolVersion?: string } }).result
    ?.protocolVersion;

/** Sends a message. @returns the response as one line, which is empty for notifications */
async function send(
  line: string,
  message: Message | undefined,
  { url, key }: Endpoint,
  negotiated: string | undefined,
): Promise<string> {
  const { method, params } = message ?? {};
  const version = params?._meta?.[versionKey] ?? negotiated;
  const name = params?.name;
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    ...(typeof version === 'string' && { 'mcp-protocol-version': version }),
    ...(method !== undefined && { 'mcp-method': method }),
    ...(typeof name === 'string' && { 'mcp-name': name }),
  };
  try {
    const response = await fetch(url, { method: 'POST', headers, body: line });
    const text = (await response.text()).trim();
    const answer = parseMessage(text);
    if (text === '' || (answer !== undefined && 'jsonrpc' in answer)) return text;
    return failure(message, `${url} responded with ${response.status}: ${text}`);
  } catch (cause) {
    const { message: reason, cause: inner } = cause as Error;
    return failure(message, `Cannot reach ${url}: ${inner instanceof Error ? inner.message : reason}`);
  }
}

/** Returns an error as the response to a message; empty if the message is a notification. */
const failure = (message: Message | undefined, text: string): string =>
  message !== undefined && message.id === undefined
    ? ''
    : JSON.stringify({ jsonrpc: '2.0', id: message?.id ?? null, error: { code: -32000, message: text } });
