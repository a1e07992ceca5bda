import { parseExactJson } from '../../engine/fields/index.ts';
import { withoutSlash } from '../settings/index.ts';

/** Thrown if a remote server could not be reached or did not respond in time. */
export class UnreachableError extends Error {}

/** Maximum size of a response, in bytes. */
const maxResponseBytes = 1024 * 1024;

/**
 * Calls a configured URL and parses the JSON response. Redirects are not followed. A refused connection is
 * retried once, because no request was sent. Other failures are not retried, because the request might be
 * processed twice.
 * @param base the origin; must come from the settings, never from data
 * @throws UnreachableError if the server does not respond in time or the response is too large
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
  const attempt = async () => {
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
    return await attempt().catch((cause) => {
      if (isConnectionRefused(cause)) return attempt();
      throw cause;
    });
  } catch (cause) {
    if (cause instanceof UnreachableError) throw cause;
    const name = (cause as Error).name;
    throw new UnreachableError(name === 'TimeoutError' ? 'no response in time' : 'connection failed', {
      cause,
    });
  }
}

const isConnectionRefused = (cause: unknown): boolean =>
  ((cause as Error).cause as { code?: string } | undefined)?.code === 'ECONNREFUSED';

async function readLimited(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > maxResponseBytes) throw new UnreachableError('the response is too large');
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
