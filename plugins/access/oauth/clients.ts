import { LRUCache } from 'lru-cache';
import {
  type AddressPolicy,
  pinnedLookup,
  type Resolve,
  receiverUrl,
  sendRequest,
} from '../../../engine/addresses.ts';
import { UserError } from '../../../engine/errors.ts';
import { singleLine } from '../../../engine/tables/index.ts';
import { isRedirectUri } from './redirect-uris.ts';

/** An OAuth client. All clients are public. */
export interface Client {
  readonly id: string;
  /** The client's name for itself, which is not verified. It can be empty. */
  readonly name: string;
  /** The host that identifies the client to users. Absent for a registered client, whose redirect URI identifies it. */
  readonly host?: string;
  readonly redirectUris: readonly string[];
}

/** Maximum size of a client ID metadata document, in bytes, and time limit for reading it, in milliseconds. */
const [maxBytes, timeoutMs] = [5 * 1024, 3000];
/** How long a document is cached, in milliseconds. */
const cacheMs = 5 * 60_000;
/** Maximum length of a client's ID and of its name, in characters. */
const [maxIdLength, maxNameLength] = [500, 60];
/** Maximum number of redirect URIs of a client. */
const maxRedirectUris = 20;

/** Reads the metadata documents of clients. */
export interface ClientDocuments {
  /** Returns the client whose ID is the URL of its document. @throws UserError if the document is not valid */
  readonly find: (id: string) => Promise<Client>;
}

/** Creates a reader of documents that caches them. @param policyOf returns the current restrictions on URLs */
export function clientDocuments(policyOf: () => AddressPolicy, resolve?: Resolve): ClientDocuments {
  const cache = new LRUCache<string, Promise<Client>>({ max: 500, ttl: cacheMs });
  return {
    find: (id) => {
      const client = cache.get(id) ?? readClient(id, policyOf(), resolve);
      cache.set(id, client, { noUpdateTTL: true });
      client.catch(() => cache.delete(id));
      return client;
    },
  };
}

async function readClient(id: string, policy: AddressPolicy, resolve?: Resolve): Promise<Client> {
  const url = documentUrl(id, policy);
  const text = await download(url, policy, resolve).catch((cause: unknown) => {
    throw new UserError('cannot read the client’s metadata document', { cause });
  });
  const metadata = parseMetadata(text);
  if (metadata === undefined || metadata.client_id !== id)
    throw new UserError('the client’s metadata document is not valid or belongs to another client');
  return { ...clientOf(id, metadata, url.hostname), host: url.hostname };
}

/** Parses a client's ID as the URL of its document. @throws UserError if it is not a permitted URL */
function documentUrl(id: string, policy: AddressPolicy): URL {
  if (id.length > maxIdLength || !URL.canParse(id))
    throw new UserError('client_id must be the URL of a client ID metadata document');
  const url = receiverUrl(id, policy);
  if (url.href !== id || url.pathname === '/')
    throw new UserError('client_id must be a normalized URL with a path');
  return url;
}

/** Metadata of a client (RFC 7591), of which nothing has been checked. */
export type Metadata = Readonly<Record<string, unknown>>;

function parseMetadata(text: string): Metadata | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Metadata)
      : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Returns the client with this metadata.
 * @param host the host of the client's metadata document; undefined for a registered client
 * @throws UserError if the metadata is not valid
 */
export function clientOf(id: string, metadata: Metadata, host?: string): Client {
  const { client_name, redirect_uris: uris, token_endpoint_auth_method: method = 'none' } = metadata;
  if (
    !Array.isArray(uris) ||
    uris.length === 0 ||
    uris.length > maxRedirectUris ||
    !uris.every((uri) => isRedirectUri(uri, host))
  )
    throw new UserError(
      `redirect_uris must be https URLs, ${host === undefined ? '' : 'URIs with a private-use scheme of the client’s host, '}or http URLs on loopback`,
    );
  if (method !== 'none') throw new UserError('token_endpoint_auth_method must be none');
  const name = typeof client_name === 'string' ? singleLine(client_name.slice(0, maxNameLength)) : '';
  return { id, name: name.toWellFormed(), redirectUris: uris };
}

/** Downloads a document. Redirects are not followed. @throws an error if it is too large, too slow or not a JSON document */
async function download(url: URL, policy: AddressPolicy, resolve?: Resolve): Promise<string> {
  const signal = AbortSignal.timeout(timeoutMs);
  const lookup = await pinnedLookup(url, policy, signal, resolve);
  const headers = { 'user-agent': 'crm-oauth', accept: 'application/json' };
  const response = await sendRequest(url, { headers, agent: false, lookup, signal });
  const { statusCode, headers: responseHeaders } = response;
  if (
    statusCode !== 200 ||
    !/^application\/(?:[\w.-]+\+)?json\b/i.test(responseHeaders['content-type'] ?? '')
  ) {
    response.destroy();
    throw new Error('not a JSON document');
  }
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Leaving the loop destroys the stream.
    if (size > maxBytes) throw new Error('the document is too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
