import { createHmac, timingSafeEqual } from 'node:crypto';
import { isRowId } from '../../engine/fields/index.ts';
import { makePublicId } from '../secrets/index.ts';

/** Browsers that have logged in before: what their cookie proves, by user. */
export interface Devices {
  /** Reads a cookie. @returns for each user that logged in there, an id of the device that nobody can make up */
  readonly read: (cookie: string | undefined) => ReadonlyMap<string, string>;
  /** The cookie of a device that has just logged in to a user; further users are kept. */
  readonly remember: (cookie: string | undefined, user: string) => string;
}

/** Users that one browser is remembered for. */
const most = 5;

/** @param keys the first signs, each verifies */
export function devices(keys: readonly Uint8Array[]): Devices {
  const sign = (text: string, key: Uint8Array) => createHmac('sha256', key).update(text).digest('base64url');
  const isSigned = (text: string, given: string) =>
    keys.some((key) => {
      const right = Buffer.from(sign(text, key));
      const signature = Buffer.from(given);
      return right.length === signature.length && timingSafeEqual(right, signature);
    });
  const read: Devices['read'] = (cookie = '') => {
    const known = new Map<string, string>();
    for (const token of cookie.slice(0, 1000).split('~').slice(0, most)) {
      const [user = '', id = '', signature = ''] = token.split('.');
      if (isRowId(user) && isSigned(`${user}.${id}`, signature)) known.set(user, id);
    }
    return known;
  };
  return {
    read,
    remember: (cookie, user) => {
      const known = read(cookie);
      const id = known.get(user) ?? makePublicId();
      const all = [[user, id] as const, ...[...known].filter(([other]) => other !== user)];
      return all
        .slice(0, most)
        .map(([each, device]) => {
          const text = `${each}.${device}`;
          return `${text}.${sign(text, keys[0] ?? new Uint8Array())}`;
        })
        .join('~');
    },
  };
}
