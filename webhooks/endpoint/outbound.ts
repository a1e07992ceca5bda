import { parseExactJson } from '../../engine/fields/index.ts';
import { withoutSlash } from '../settings/index.ts';

/** The remote server could not be reached, or sent no HTTP response in time. */
export class UnreachableError extends Error {}

/** Limit on a response, in bytes. */
const maxResponseBytes = 1024 * 1024;

/**
 * Calls a configured address and reads a JSON response. Redirects are not followed. A refused connection is tried
 * once more, because then nothing was sent; no other failure is, because the request might run twice.
 * @param base from the settings only, never from data
 * @throws Unreachable when there is no response in time, or it is too large
 */
export async function fetchJson(
  base: string,
  path: string,
  options: {
    readonly method: 'GET' | 'POST';
    readonly token: string;
    readonly timeoutMs: number;
    readonly body?: object;
  },
): Promise<{ readonly status: number; readonly body: unknown }> {
  const once = async () => {
    const response = await fetch(`${withoutSlash(base)}${path}`, {
      method: options.method,
      redirect: 'manual',
      signal: AbortSignal.timeout(options.timeoutMs),
      headers: {
        authorization: `Bearer ${options.token}`,
        accept: 'application/json',
        ...(options.body && { 'content-type': 'application/json' }),
      },
      ...(options.body && { body: JSON.stringify(options.body) }),
    });
    return { status: response.status, body: parse(await readLimited(response)) };
  };
  try {
    return await once().catch((cause) => {
      if (refused(cause)) return once();
      throw cause;
    });
  } catch (cause) {
    if (cause instanceof UnreachableError) throw cause;
    const name = (cause as Error).name;
    throw new UnreachableError(name === 'TimeoutError' ? 'no answer in time' : 'no connection', { cause });
  }
}

const refused = (cause: unknown): boolean =>
  ((cause as Error).cause as { code?: string } | undefined)?.code === 'ECONNREFUSED';

async function readLimited(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxResponseBytes) throw new UnreachableError('the answer is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}
