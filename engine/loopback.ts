import { BlockList, isIPv6 } from 'node:net';

const addresses = new BlockList();
addresses.addSubnet('127.0.0.0', 8);
addresses.addAddress('::1', 'ipv6');

/**
 * Whether a host, as URLs and settings have it, is the machine itself: `localhost`, or a loopback address in any notation.
 * Names below `localhost` are not: browsers never ask the network for them (RFC 6761), but other resolvers do.
 */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  if (isIPv6(bare)) return addresses.check(bare, 'ipv6');
  const url = `http://${bare.replace(/\.$/, '')}`;
  if (!/^[\w.-]+$/.test(bare) || !URL.canParse(url)) return false;
  // As the system reads what is written in other ways: 127.1, 0x7f000001.
  const { hostname } = new URL(url);
  return hostname === 'localhost' || addresses.check(hostname);
}
