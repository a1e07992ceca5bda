import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { isRowId } from '../../../engine/fields/index.ts';
import type { TextSigner } from '../../../engine/records/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import {
  type AuthenticatedUser,
  enabledUsers,
  type Site,
  type User,
  usersWithPassword,
} from '../identity/index.ts';
import { createLoginLimiter } from '../rate-limiting/index.ts';
import { generatePublicId, type InstanceSecrets, signing } from '../secrets/index.ts';

/** Browsers with previous logins, identified by a signed cookie. */
interface Devices {
  /** Reads a signed cookie, which cannot be forged. @returns the device's ID for each user who has logged in on it */
  readonly read: (cookie: string | undefined) => ReadonlyMap<string, string>;
  /** Returns a device's new cookie after a login. The cookie retains the device's other users. */
  readonly remember: (cookie: string | undefined, user: string) => string;
}

/** Maximum number of users in a device's cookie. */
const maxUsers = 5;

function devices({ sign, verify }: TextSigner): Devices {
  const read: Devices['read'] = (cookie = '') => {
    const ids = new Map<string, string>();
    for (const token of cookie.slice(0, 1000).split('~').slice(0, maxUsers)) {
      const [user = '', id = '', signature = ''] = token.split('.');
      if (isRowId(user) && verify(`${user}.${id}`, signature)) ids.set(user, id);
    }
    return ids;
  };
  return {
    read,
    remember: (cookie, user) => {
      const ids = read(cookie);
      const id = ids.get(user) ?? generatePublicId();
      const entries = [[user, id] as const, ...[...ids].filter(([userId]) => userId !== user)];
      return entries
        .slice(0, maxUsers)
        .map(([userId, device]) => {
          const text = `${userId}.${device}`;
          return `${text}.${sign(text)}`;
        })
        .join('~');
    },
  };
}

/** An email address and a password to verify. */
export interface LoginAttempt {
  readonly email: string;
  readonly password: string;
  /** ID of the user; if absent, all users with the email address are checked. */
  readonly id?: string;
  /** Receives the IDs of the users whose password is checked, regardless of the result. */
  readonly onUsers?: (users: readonly string[]) => void;
}

/** Verifies passwords and rate-limits guessing. */
interface CredentialCheck {
  /**
   * Yields the users whose password matches: first the users who have logged in on this device before, then
   * all other users.
   * @throws HttpError 429 with Retry-After after too many wrong passwords
   */
  readonly matchingUsers: (
    request: FastifyRequest,
    attempt: LoginAttempt,
  ) => AsyncGenerator<readonly AuthenticatedUser[]>;
  /** Remembers that a user has logged in on this device. */
  readonly remember: (request: FastifyRequest, reply: FastifyReply, user: string) => void;
}

/** Maximum cookie lifetime that browsers allow, in seconds. */
const maxCookieSeconds = 400 * 86_400;

export function credentialCheck(
  { database, secrets }: { readonly database: Database; readonly secrets: InstanceSecrets },
  site: Site,
): CredentialCheck {
  const limiter = createLoginLimiter();
  const deviceCookie = devices(signing(secrets, 'devices'));
  const cookie = (request: FastifyRequest) => (site.isSecure(request) ? '__Host-crm_device' : 'crm_device');
  const verify = async (users: readonly User[], password: string) => {
    const matches = await usersWithPassword(tablesOf(database), users, password);
    return matches.length === 0 ? undefined : matches;
  };
  return {
    matchingUsers: async function* (request, { email, password, id, onUsers }) {
      const candidates = await enabledUsers(tablesOf(database), email);
      const users = candidates.filter((user) => id === undefined || user.id === id);
      onUsers?.(users.map((user) => user.id));
      const device = deviceCookie.read(request.cookies[cookie(request)]);
      const deviceUsers = users.filter((user) => device.has(user.id));
      const [first] = deviceUsers;
      if (first !== undefined) {
        const matches = await limiter.knownDevice(device.get(first.id) ?? '', () =>
          verify(deviceUsers, password),
        );
        if (matches !== undefined) yield matches;
        if (deviceUsers.length === users.length) return;
      }
      const otherUsers = users.filter((user) => !deviceUsers.includes(user));
      const matches = await limiter.unknownDevice(request, email, () => verify(otherUsers, password));
      if (matches !== undefined) yield matches;
    },
    remember: (request, reply, user) => {
      const name = cookie(request);
      reply.setCookie(name, deviceCookie.remember(request.cookies[name], user), {
        ...site.cookie(request, '/'),
        maxAge: maxCookieSeconds,
      });
    },
  };
}
