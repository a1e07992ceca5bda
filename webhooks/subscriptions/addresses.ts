import { promises as dns, type LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { UserError } from '../../engine/errors.ts';
import type { Settings } from '../settings/index.ts';
import { isMetadata } from './metadata.ts';

/** Settings that restrict receiver URLs. */
export type AddressPolicy = Settings['events'];

/** The only globally routed range of IPv6. Within it, ipaddr.js recognizes the subranges that are not public. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/** Returns whether an IP address is public. IPv4-mapped addresses are treated as IPv4. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || (parsed as ipaddr.IPv6).match(globalUnicast);
}

/**
 * Parses a receiver URL.
 * @throws UserError if it is invalid or not allowed
 */
export function receiverUrl(text: string, policy: AddressPolicy): URL {
  if (!URL.canParse(text) || text.length > 2000) throw new UserError('url must be an absolute URL');
  const url = new URL(text);
  const isHttp = url.protocol === 'http:';
  if (url.protocol !== 'https:' && !(isHttp && policy.allow_http)) {
    throw new UserError(`url must start with ${policy.allow_http ? 'https:// or http://' : 'https://'}`);
  }
  if (url.username !== '' || url.password !== '')
    throw new UserError('url must not contain a user or password');
  if (url.hash !== '') throw new UserError('url must not contain a fragment');
  const port = Number(url.port || (isHttp ? 80 : 443));
  if (!policy.ports.includes(port)) {
    throw new UserError(`url must use one of these ports: ${policy.ports.join(', ')}`);
  }
  const host = hostOf(url);
  if (isIP(host) !== 0) assertAllowed([host], policy);
  return url;
}

/**
 * Rejects addresses in the operator's network. Metadata services are rejected regardless of the settings,
 * because they return the machine's credentials.
 * @throws UserError if any of the IP addresses is rejected
 */
function assertAllowed(addresses: readonly string[], { allow_private_addresses }: AddressPolicy): void {
  if (!allow_private_addresses && !addresses.every(isPublic)) {
    throw new UserError('url must not resolve to a private IP address');
  }
  if (addresses.some(isMetadata)) {
    throw new UserError('url must not resolve to a cloud metadata service');
  }
}

/** Returns a URL's host, without the brackets of an IPv6 address. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

/** Resolves a host name to IP addresses. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

const resolveByDns: Resolve = (host) => dns.lookup(host, { all: true });

/**
 * Resolves a URL's host to an IP address. The connection must use this address, because a second lookup could return a
 * different address.
 * @throws UserError if the host name cannot be resolved, or any of its addresses is not allowed
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
          throw new UserError('the host name cannot be resolved');
        })
      : [{ address: host, family }];
  assertAllowed(
    addresses.map(({ address }) => address),
    policy,
  );
  const [first] = addresses;
  if (first === undefined) throw new UserError('the host name cannot be resolved');
  return first;
}
