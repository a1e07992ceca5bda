import { isRowId } from '../../../engine/fields/index.ts';
import type { TextSigner } from '../../../engine/records/index.ts';
import { makePublicId } from '../secrets/index.ts';

/** Browsers that have logged in before, proven by a signed cookie. */
export interface Devices {
  /** Reads a cookie. @returns the device's id for each user that has logged in there; it cannot be forged */
  readonly read: (cookie: string | undefined) => ReadonlyMap<string, string>;
  /** The cookie of a device after a login; other users in it are kept. */
  readonly remember: (cookie: string | undefined, user: string) => string;
}

/** The number of users in one browser's cookie. */
const maxUsers = 5;

export function devices({ sign, verify }: TextSigner): Devices {
  const read: Devices['read'] = (cookie = '') => {
    const known = new Map<string, string>();
    for (const token of cookie.slice(0, 1000).split('~').slice(0, maxUsers)) {
      const [user = '', id = '', signature = ''] = token.split('.');
      if (isRowId(user) && verify(`${user}.${id}`, signature)) known.set(user, id);
    }
    return known;
  };
  return {
    read,
    remember: (cookie, user) => {
      const known = read(cookie);
      const id = known.get(user) ?? makePublicId();
      const all = [[user, id] as const, ...[...known].filter(([each]) => each !== user)];
      return all
        .slice(0, maxUsers)
        .map(([each, device]) => {
          const text = `${each}.${device}`;
          return `${text}.${sign(text)}`;
        })
        .join('~');
    },
  };
}
