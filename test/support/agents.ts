// Agents: callers of the tools of the Model Context Protocol.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseExactJson } from '../../engine/fields/exact-json.ts';
import { type Answer, type Instance, temporaryFolder } from './instance.ts';

const folder = temporaryFolder();
process.on('exit', folder.remove);

/** Returns the environment of an instance with these lines in config.yaml. */
export function configured(name: string, text: string): { readonly CRM_CONFIG: string } {
  const file = join(folder.path, `${name}.yaml`);
  writeFileSync(file, text);
  return { CRM_CONFIG: file };
}

/** The result of a tool. */
export interface ToolAnswer {
  readonly isError: boolean;
  /** The structured result, in which numbers that JavaScript would round are exact. */
  readonly result: Readonly<Record<string, unknown>>;
  /** The text for the model. */
  readonly text: string;
}

/** Sends a message of the protocol, as a client of the revision 2025-11-25 does without a session. */
export const sendMessage = (
  instance: Instance,
  key: string,
  message: object,
  headers = {},
): Promise<Answer> =>
  instance.call('POST /mcp', { key, body: { jsonrpc: '2.0', id: 1, ...message }, headers });

/** Calls a tool. The arguments are an object, or JSON. */
export async function callTool(
  instance: Instance,
  key: string,
  name: string,
  input: object | string = {},
): Promise<ToolAnswer> {
  const params = typeof input === 'string' ? input : JSON.stringify(input);
  const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${params}}}`;
  const answer = await instance.call('POST /mcp', {
    key,
    body,
    headers: { 'content-type': 'application/json' },
  });
  assert.equal(answer.status, 200, answer.text);
  const { result } = parseExactJson(answer.text) as {
    readonly result?: {
      readonly content: readonly { readonly text: string }[];
      readonly structuredContent: ToolAnswer['result'];
      readonly isError?: boolean;
    };
  };
  if (result === undefined) return assert.fail(answer.text);
  return {
    isError: result.isError === true,
    result: result.structuredContent,
    text: result.content[0]?.text ?? '',
  };
}

/** Calls a tool that must succeed, and returns its result. */
export async function useTool(...parameters: Parameters<typeof callTool>): Promise<ToolAnswer['result']> {
  const { isError, result, text } = await callTool(...parameters);
  assert.equal(isError, false, text);
  return result;
}

/** Calls a tool that must fail, and returns the error. */
export async function failTool(...parameters: Parameters<typeof callTool>): Promise<ToolAnswer['result']> {
  const { isError, result, text } = await callTool(...parameters);
  assert.equal(isError, true, text);
  return result;
}
