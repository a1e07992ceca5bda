import { BlockList, isIPv6 } from 'node:net';

const addresses = new BlockList();
addresses.addSubnet('127.0.0.0', 8);
addresses.addAddress('::1', 'ipv6');

/**
 * Returns whether a host refers to this machine: `localhost`, or a loopback address in any notation.
 * Subdomains of `localhost` do not count, because not every resolver treats them as loopback (RFC 6761).
 */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[(.*)\]$/, '$1');
  if (isIPv6(name)) return addresses.check(name, 'ipv6');
  const url = `http://${name.replace(/\.$/, '')}`;
  if (!/^[\w.-]+$/.test(name) || !URL.canParse(url)) return false;
  // The URL parser normalizes other notations, for example 127.1 and 0x7f000001.
  const { hostname } = new URL(url);
  return hostname === 'localhost' || addresses.check(hostname);
}
