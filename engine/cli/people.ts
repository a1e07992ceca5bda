import { UserError } from '../errors.ts';
import { isDate, isRowId, parseTimestamp } from '../fields/index.ts';
import {
  commandLine,
  createKey,
  createOrganization,
  createProfile,
  listKeys,
  organizationId,
  parseGrant,
  profileId,
  revokeKey,
  transaction,
} from '../platform/index.ts';
import { type Result, table, withInstance } from './context.ts';

/** `org create <slug>`. */
export const orgCreate = (slug: string, { name = slug }: { name?: string | undefined }): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const by = commandLine(config);
    const id = await transaction(database, (tables) => createOrganization(tables, by, slug, name));
    return {
      json: { id, slug, name, profiles: ['administrator', 'read-only'] },
      text: `Organization "${slug}" made, with the profiles administrator and read-only.`,
    };
  });

/** `profile create <name>`. */
export const profileCreate = (
  name: string,
  { org, grant }: { org: string; grant: readonly string[] },
): Promise<Result> =>
  withInstance(async ({ database, resources, config }) => {
    const by = commandLine(config);
    const objects = resources.map((resource) => resource.name);
    const grants = grant.map((text) => parseGrant(text, objects));
    const id = await transaction(database, async (tables) =>
      createProfile(tables, by, await organizationId(tables, org), name, grants),
    );
    return {
      json: { id, name, organization: org, grants },
      text: `Profile "${name}" made in "${org}", with ${grant.length} grant(s).`,
    };
  });

/** `key create`. */
export const keyCreate = (options: {
  org: string;
  profile: string;
  name: string;
  expires?: string | undefined;
}): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const by = commandLine(config);
    const expiresAt = expiry(options.expires);
    const key = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, options.org);
      const profile = await profileId(tables, organization, options.profile);
      return createKey(tables, by, config.keyPrefix, {
        organization,
        profile,
        name: options.name,
        user: null,
        expiresAt,
      });
    });
    return {
      json: {
        id: key.id,
        key: key.plaintext,
        name: options.name,
        organization: options.org,
        profile: options.profile,
        last_four: key.lastFour,
        expires_at: expiresAt?.toISOString() ?? null,
      },
      text: `Key ${key.id} made for "${options.org}", as ${options.profile}. Shown this once:\n${key.plaintext}`,
    };
  });

/** `key list`. */
export const keyList = ({ org }: { org: string }): Promise<Result> =>
  withInstance(async ({ database }) => {
    const keys = await transaction(database, async (tables) =>
      listKeys(tables, await organizationId(tables, org)),
    );
    const rows = keys.map((key) => [
      key.id,
      key.name,
      key.profile,
      `…${key.last_four}`,
      key.created_at,
      key.last_used_at ?? 'never',
      key.revoked_at !== null
        ? `revoked ${key.revoked_at}`
        : key.expires_at !== null
          ? `until ${key.expires_at}`
          : 'live',
    ]);
    return {
      json: { keys },
      text:
        keys.length === 0
          ? `"${org}" has no keys.`
          : table(['id', 'name', 'profile', 'key', 'created', 'last used', 'state'], rows),
    };
  });

/** `key revoke <id>`. */
export const keyRevoke = (id: string, { org }: { org: string }): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    if (!isRowId(id)) throw new UserError(`"${id}" is no id of a key; "key list" shows them`);
    const by = commandLine(config);
    await transaction(database, async (tables) =>
      revokeKey(tables, by, await organizationId(tables, org), id),
    );
    return {
      json: { id, revoked: true },
      text: `Key ${id} is revoked; every node refuses it within a second.`,
    };
  });

/** A time in the future, RFC 3339 or a date. @throws UserError otherwise */
function expiry(text: string | undefined): Date | null {
  if (text === undefined) return null;
  const at = new Date(text);
  if (!isDate(text) && parseTimestamp(text) === undefined) {
    throw new UserError(`"${text}" is no time; write 2027-01-31 or 2027-01-31T12:00:00Z`);
  }
  if (at.getTime() <= Date.now()) throw new UserError(`${text} is past`);
  return at;
}
