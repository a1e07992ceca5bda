import { promises as dns, type LookupAddress } from 'node:dns';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { UserError } from '../../engine/errors.ts';
import type { Settings } from '../settings/index.ts';
import { isMetadata } from './metadata.ts';

/** Where events may be sent, as config.yaml says. */
export type AddressPolicy = Settings['events'];

/** The only addresses of IPv6 that are routed to other networks; ranges in it that are not are known to the library. */
const globalUnicast = ipaddr.IPv6.parseCIDR('2000::/3');

/** Whether an IP address is on the public Internet. IPv4-mapped addresses count as IPv4. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== 'unicast') return false;
  return parsed.kind() === 'ipv4' || (parsed as ipaddr.IPv6).match(globalUnicast);
}

/**
 * Reads an address that events are to be sent to.
 * @throws UserError if it is none, or not allowed
 */
export function receiverUrl(text: string, allowed: AddressPolicy): URL {
  if (!URL.canParse(text) || text.length > 2000) throw new UserError('url must be an absolute URL');
  const url = new URL(text);
  const isHttp = url.protocol === 'http:';
  if (url.protocol !== 'https:' && !(isHttp && allowed.allow_http)) {
    throw new UserError('url must begin with https://');
  }
  if (url.username !== '' || url.password !== '') throw new UserError('url must hold no user and password');
  if (url.hash !== '') throw new UserError('url must have no fragment');
  const port = Number(url.port || (isHttp ? 80 : 443));
  if (!allowed.ports.includes(port)) {
    throw new UserError(`url must have one of the ports ${allowed.ports.join(', ')}`);
  }
  const host = hostOf(url);
  if (isIP(host) !== 0) assertAllowed([host], allowed);
  return url;
}

/**
 * Rejects addresses inside the operator's network. Metadata services are rejected whatever the settings allow, because
 * they hand out the machine's credentials.
 * @throws UserError if any of the IP addresses is rejected
 */
function assertAllowed(addresses: readonly string[], { allow_private_addresses }: AddressPolicy): void {
  if (!allow_private_addresses && !addresses.every(isPublic)) {
    throw new UserError('url must not lead to a private address');
  }
  if (addresses.some(isMetadata)) {
    throw new UserError('url must not lead to the metadata service of a cloud provider');
  }
}

/** The host of a URL, an IPv6 address without its brackets. */
const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, '');

/** Finds the addresses of a name. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

const resolveByDns: Resolve = (host) => dns.lookup(host, { all: true });

/**
 * The one address to connect to. It is looked up once and used as it is, so that no second answer leads elsewhere.
 * @throws UserError if the name has none, or any of its addresses is not allowed
 */
export async function pinnedAddress(
  url: URL,
  allowed: AddressPolicy,
  resolve: Resolve = resolveByDns,
): Promise<LookupAddress> {
  const host = hostOf(url);
  const family = isIP(host);
  const found =
    family === 0
      ? await resolve(host).catch(() => {
          throw new UserError('the name has no address');
        })
      : [{ address: host, family }];
  assertAllowed(
    found.map(({ address }) => address),
    allowed,
  );
  const [first] = found;
  if (first === undefined) throw new UserError('the name has no address');
  return first;
}
