import ipaddr from 'ipaddr.js';
import { type Address, type DatabaseConfig, describeHost } from '../../../engine/database/index.ts';
import type { HttpConfig } from '../../../engine/http/index.ts';
import { isLoopback } from '../../../engine/loopback.ts';
import type { DoctorCheck, Finding } from '../../../engine/modules/index.ts';

/** IP address ranges for private networks. */
const privateRanges = ['loopback', 'private', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'];

/**
 * Reports whether a host is on this machine or on a private network: a socket, a private IP address, or a
 * name without a dot or under .internal.
 */
function isPrivate(host: string): boolean {
  const hostname = host.replace(/^\[|\]$/g, '');
  if (ipaddr.isValid(hostname)) return privateRanges.includes(ipaddr.process(hostname).range());
  return host.startsWith('/') || !host.includes('.') || host.endsWith('.internal');
}

const tlsAdvice = 'Add sslmode=verify-full and sslrootcert=system (or a file) to its URL.';

const encryption: DoctorCheck<{ readonly config: DatabaseConfig }> = {
  name: 'database connection encryption',
  needs: ['config'],
  run: ({ config }) => [
    ...unencrypted('DATABASE_URL', config.databaseAddress === undefined ? [] : [config.databaseAddress]),
    ...unencrypted('DATABASE_REPLICA_URLS', config.replicaAddresses),
  ],
};

const unencrypted = (location: string, addresses: readonly Address[]): readonly Finding[] =>
  addresses
    .flatMap(({ hosts }) => hosts)
    .filter(({ host }) => !isPrivate(host))
    .flatMap((host): Finding[] => {
      const name = describeHost(host);
      if (host.encryption.includes(false)) {
        const message = `the connection to ${name} ${host.encryption.length > 1 ? 'can be' : 'is'} unencrypted and leaves the private network`;
        return [{ location, message, advice: tlsAdvice }];
      }
      const isVerified = host.encryption.every((mode) => mode !== false && mode.rejectUnauthorized === true);
      const message = `the connection to ${name} is encrypted, but the server certificate is not verified`;
      return isVerified ? [] : [{ location, message, advice: tlsAdvice, isNote: true }];
    });

const workers: DoctorCheck<{ readonly config: DatabaseConfig }> = {
  name: 'workers',
  needs: ['config'],
  run: ({ config: { workers: count, pool, databaseAddress } }) => {
    if (count === 1) return [];
    if (databaseAddress === undefined) {
      const message = 'only one process can use the embedded database';
      return [{ location: 'WORKERS', message, advice: 'Set DATABASE_URL, or unset WORKERS.' }];
    }
    if (pool >= 3 * count) return [];
    const message = `${pool} connections are too few for ${count} workers`;
    return [{ location: 'DATABASE_POOL', message, advice: `Set it to at least ${3 * count}.` }];
  },
};

interface AdminPortConfig {
  readonly adminPort: number | undefined;
  readonly adminHost: string;
}

const adminPortCheck: DoctorCheck<{ readonly config: AdminPortConfig }> = {
  name: 'admin port',
  needs: ['config'],
  run: ({ config: { adminPort, adminHost } }) =>
    adminPort === undefined || (ipaddr.isValid(adminHost) && isPrivate(adminHost)) || isLoopback(adminHost)
      ? []
      : [
          {
            location: 'ADMIN_HOST',
            message: `ADMIN_PORT ${adminPort} listens on ${adminHost} without authentication`,
            advice: 'Restrict access with a firewall, or set ADMIN_HOST to a private IP address.',
            isNote: true,
          },
        ],
};

const publicUrl: DoctorCheck<{
  readonly config: HttpConfig;
  readonly settings: { readonly public_url: string };
}> = {
  name: 'public URL',
  needs: ['config', 'settings'],
  run: ({ config, settings: { public_url } }) => {
    if (public_url === '') {
      const message =
        'it is not set, so invitations and password reset links are not emailed, and administrators must pass them on';
      const advice = 'Set PUBLIC_URL to the origin that users open, for example https://crm.example.';
      return [{ location: 'public_url', message, advice, isNote: true }];
    }
    const { protocol, hostname } = new URL(public_url);
    if (protocol === 'http:' && !isPrivate(hostname)) {
      const message = `${public_url} does not use TLS, so passwords and cookies can be intercepted`;
      const advice = 'Use a proxy that terminates TLS, and set PUBLIC_URL to its https:// URL.';
      return [{ location: 'public_url', message, advice }];
    }
    if (protocol === 'https:' && config.trustedProxies === 0) {
      const message = 'the proxy in front of public_url is not trusted, so all callers share its IP address';
      const advice =
        'Set it to the number of proxies in front of the service. Failed logins are limited per IP address.';
      return [{ location: 'TRUSTED_PROXIES', message, advice }];
    }
    return [];
  },
};

/** Checks for the instance's network configuration. */
export const addressChecks = [encryption, workers, adminPortCheck, publicUrl];
