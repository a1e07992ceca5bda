import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { tablesOf } from '../../../engine/tables/index.ts';
import { enabledUsers, type KnownUser, type Site, type User, usersWithPassword } from '../identity/index.ts';
import { createLoginLimiter } from '../rate-limiting/index.ts';
import { type InstanceSecrets, signing } from '../secrets/index.ts';
import { devices } from './devices.ts';

/** A password to verify, and whose it is. */
export interface Attempt {
  readonly email: string;
  readonly password: string;
  /** The user; absent: any of the address. */
  readonly id?: string;
  /** Receives the IDs of the users whose password is checked, whatever the result. */
  readonly found?: (users: readonly string[]) => void;
}

/** Verifies passwords, throttled against guessing. */
export interface CredentialCheck {
  /**
   * The users that a password matches: first those that this device has logged in to before, then the rest.
   * @throws HttpError 429 with Retry-After after too many wrong passwords
   */
  readonly fitting: (request: FastifyRequest, attempt: Attempt) => AsyncGenerator<readonly KnownUser[]>;
  /** Remembers the device as one that has logged in to a user. */
  readonly remember: (request: FastifyRequest, reply: FastifyReply, user: string) => void;
}

/** The longest time that browsers keep a cookie. */
const longestSeconds = 400 * 86_400;

export function credentialCheck(
  { database, secrets }: { readonly database: Database; readonly secrets: InstanceSecrets },
  site: Site,
): CredentialCheck {
  const guard = createLoginLimiter();
  const known = devices(signing(secrets, 'devices'));
  const cookie = (request: FastifyRequest) => (site.isSecure(request) ? '__Host-crm_device' : 'crm_device');
  const verify = async (users: readonly User[], password: string) => {
    const fitting = await usersWithPassword(tablesOf(database), users, password);
    return fitting.length === 0 ? undefined : fitting;
  };
  return {
    fitting: async function* (request, { email, password, id, found }) {
      const all = await enabledUsers(tablesOf(database), email);
      const users = all.filter((user) => id === undefined || user.id === id);
      found?.(users.map((user) => user.id));
      const device = known.read(request.cookies[cookie(request)]);
      const here = users.filter((user) => device.has(user.id));
      const [first] = here;
      if (first !== undefined) {
        const fitting = await guard.device(device.get(first.id) ?? '', () => verify(here, password));
        if (fitting !== undefined) yield fitting;
        if (here.length === users.length) return;
      }
      const unknown = users.filter((user) => !here.includes(user));
      const fitting = await guard.stranger(request, email, () => verify(unknown, password));
      if (fitting !== undefined) yield fitting;
    },
    remember: (request, reply, user) => {
      const name = cookie(request);
      reply.setCookie(name, known.remember(request.cookies[name], user), {
        ...site.cookie(request, '/'),
        maxAge: longestSeconds,
      });
    },
  };
}
