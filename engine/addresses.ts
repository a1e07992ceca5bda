import { promises as dns, type LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest, type RequestOptions } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';
import { UserError } from './errors.ts';

/**
 * IPv4 addresses of cloud metadata services and related platform services, which return credentials and configuration
 * to any process on the machine. The link-local range, which contains most of them, is rejected entirely.
 */
const hosts: ReadonlySet<string> = new Set([
  // The metadata service on AWS, Azure, Google Cloud, Oracle Cloud, DigitalOcean and most other providers.
  '169.254.169.254',
  // AWS: credentials for ECS tasks and EKS pods.
  '169.254.170.2',
  '169.254.170.23',
  // Azure: the wire server, which is not in a private range.
  '168.63.129.16',
  // Alibaba Cloud.
  '100.100.100.200',
  // Oracle Cloud Classic.
  '192.0.0.192',
]);
const linkLocal = ipaddr.IPv4.parseCIDR('169.254.0.0/16');

/** IPv6 ranges for the same services. */
const ranges = [
  // AWS: instance metadata, DNS, time and EKS credentials.
  'fd00:ec2::/32',
  // Google Cloud.
  'fd20:ce::254/128',
  // Scaleway.
  'fd00:42::42/128',
].map((range) => ipaddr.IPv6.parseCIDR(range));

/** The only globally routed IPv6 range. Within it, ipaddr.js recognizes the subranges that are not public. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/**
 * Prefixes for IPv6 addresses that embed an IPv4 address, with the positions of the IPv4 bytes: 6to4, both
 * addresses in Teredo, and the local-use NAT64 prefix with its shortest and longest lengths (RFC 6052).
 */
const embeddings = (
  [
    ['2002::/16', [2, 3, 4, 5], 0],
    ['2001::/32', [4, 5, 6, 7], 0],
    ['2001::/32', [12, 13, 14, 15], 0xff],
    ['64:ff9b:1::/48', [6, 7, 9, 10], 0],
    ['64:ff9b:1::/48', [7, 9, 10, 11], 0],
    ['64:ff9b:1::/48', [9, 10, 11, 12], 0],
  ] as const
).map(([prefix, positions, mask]) => ({ prefix: ipaddr.IPv6.parseCIDR(prefix), positions, mask }));

/** Returns whether an IP address is, or embeds, a cloud metadata service's address. */
export function isMetadata(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.parse(address);
  return parsed.kind() === 'ipv4'
    ? isMetadataIpv4(parsed as ipaddr.IPv4)
    : isMetadataIpv6(parsed as ipaddr.IPv6);
}

const isMetadataIpv4 = (address: ipaddr.IPv4): boolean =>
  hosts.has(address.toString()) || address.match(linkLocal);

function isMetadataIpv6(address: ipaddr.IPv6): boolean {
  if (ranges.some((range) => address.match(range))) return true;
  const bytes = address.toByteArray();
  const ipv4 = (positions: readonly number[], mask: number) =>
    new ipaddr.IPv4(positions.map((position) => (bytes[position] ?? 0) ^ mask));
  if (
    embeddings.some(
      ({ prefix, positions, mask }) => address.match(prefix) && isMetadataIpv4(ipv4(positions, mask)),
    )
  )
    return true;
  // Mapped, compatible, translated, ISATAP and NAT64 addresses end with the IPv4 address. Public addresses
  // can end with link-local bytes by chance, so they are compared only with the services' addresses.
  const last = ipv4([12, 13, 14, 15], 0);
  return address.match(globalUnicast) ? hosts.has(last.toString()) : isMetadataIpv4(last);
}

/** Messages about URLs to which the instance sends no requests, by reason. */
export const addressMessages = {
  invalidUrl: () => 'url must be an absolute URL',
  protocol: ({ protocols }) => `url must start with ${protocols}`,
  credentials: () => 'url must not contain a user or password',
  fragment: () => 'url must not contain a fragment',
  port: ({ ports }) => `url must use one of these ports: ${ports}`,
  privateAddress: () => 'url must not resolve to a private IP address',
  metadataAddress: () => 'url must not resolve to a cloud metadata service',
  unknownHost: () => 'the host name cannot be resolved',
} satisfies Record<string, (values: Readonly<Record<string, string>>) => string>;

/** A URL that is invalid or not allowed. */
export class AddressError extends UserError {
  readonly code: keyof typeof addressMessages;
  /** Values of the message's parameters. */
  readonly values: Readonly<Record<string, string>>;

  constructor(code: AddressError['code'], values: AddressError['values'] = {}) {
    super(addressMessages[code](values));
    this.code = code;
    this.values = values;
  }
}

/** Settings that restrict the URLs to which the instance sends requests on behalf of its users. */
export interface AddressPolicy {
  readonly allow_private_addresses: boolean;
  readonly allow_http: boolean;
  readonly ports: readonly number[];
}

/** Returns whether an IP address is public. IPv4-mapped addresses are treated as IPv4. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || (parsed as ipaddr.IPv6).match(globalUnicast);
}

/**
 * Parses a URL to which the instance sends requests.
 * @throws AddressError if it is invalid or not allowed
 */
export function receiverUrl(text: string, policy: AddressPolicy): URL {
  if (!URL.canParse(text) || text.length > 2000) throw new AddressError('invalidUrl');
  const url = new URL(text);
  const isHttp = url.protocol === 'http:';
  if (url.protocol !== 'https:' && !(isHttp && policy.allow_http)) {
    throw new AddressError('protocol', { protocols: policy.allow_http ? 'https:// or http://' : 'https://' });
  }
  if (url.username !== '' || url.password !== '') throw new AddressError('credentials');
  if (url.hash !== '') throw new AddressError('fragment');
  const port = Number(url.port || (isHttp ? 80 : 443));
  if (!policy.ports.includes(port)) {
    throw new AddressError('port', { ports: policy.ports.join(', ') });
  }
  const host = hostOf(url);
  if (isIP(host) !== 0) assertAllowed([host], policy);
  return url;
}

/**
 * Rejects addresses on the operator's network. Metadata services are rejected regardless of the settings,
 * because they return the machine's credentials.
 * @throws AddressError if any of the IP addresses is rejected
 */
function assertAllowed(addresses: readonly string[], { allow_private_addresses }: AddressPolicy): void {
  if (!allow_private_addresses && !addresses.every(isPublic)) {
    throw new AddressError('privateAddress');
  }
  if (addresses.some(isMetadata)) {
    throw new AddressError('metadataAddress');
  }
}

/** Returns a URL's host, without the brackets around an IPv6 address. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

/** Resolves a host name to IP addresses. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

const resolveByDns: Resolve = (host) => dns.lookup(host, { all: true });

/**
 * Resolves a URL's host to an IP address. The connection must use this address, because a second lookup could return a
 * different address.
 * @throws AddressError if the host name cannot be resolved, or any of its addresses is not allowed
 */
export async function pinnedAddress(
  url: URL,
  policy: AddressPolicy,
  resolve: Resolve = resolveByDns,
): Promise<LookupAddress> {
  const host = hostOf(url);
  const family = isIP(host);
  const addresses =
    family === 0
      ? await resolve(host).catch(() => {
          throw new AddressError('unknownHost');
        })
      : [{ address: host, family }];
  assertAllowed(
    addresses.map(({ address }) => address),
    policy,
  );
  const [first] = addresses;
  if (first === undefined) throw new AddressError('unknownHost');
  return first;
}

/**
 * Returns the DNS lookup for a connection to a URL. It always returns the address from {@link pinnedAddress}.
 * @throws AddressError in the same cases; the signal's reason if it is aborted first
 */
export async function pinnedLookup(
  url: URL,
  policy: AddressPolicy,
  signal: AbortSignal,
  resolve?: Resolve,
): Promise<LookupFunction> {
  // A lookup cannot be canceled.
  const aborted = once(signal, 'abort').then(() => Promise.reject(signal.reason));
  const { address, family } = await Promise.race([pinnedAddress(url, policy, resolve), aborted]);
  return (_host, { all }, done) => (all ? done(null, [{ address, family }]) : done(null, address, family));
}

/**
 * Sends a request, and returns the response when its headers have arrived. Redirects are not followed.
 * @param options must contain the `lookup` from {@link pinnedLookup}
 * @throws an error if the connection fails or is closed before that; the signal's reason if it is aborted first
 */
export const sendRequest = (
  url: URL,
  options: RequestOptions,
  body?: string | Buffer,
): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const send = url.protocol === 'http:' ? httpRequest : httpsRequest;
    send(url, options)
      .once('response', resolve)
      .once('error', reject)
      // Neither event is emitted if the server switches protocols.
      .once('close', () => reject(new Error('closed')))
      .end(body);
  });
