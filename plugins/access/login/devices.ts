import { isRowId } from '../../../engine/fields/index.ts';
import type { TextSigner } from '../../../engine/records/index.ts';
import { generatePublicId } from '../secrets/index.ts';

/** Browsers with previous logins, identified by a signed cookie. */
interface Devices {
  /** Reads a signed cookie, which cannot be forged. @returns the device's ID for each user who has logged in on it */
  readonly read: (cookie: string | undefined) => ReadonlyMap<string, string>;
  /** Returns a device's new cookie after a login. The cookie still contains the other users of the device. */
  readonly remember: (cookie: string | undefined, user: string) => string;
}

/** Maximum number of users in a device's cookie. */
const maxUsers = 5;

export function devices({ sign, verify }: TextSigner): Devices {
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
