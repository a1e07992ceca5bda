import type { Database } from '../../../engine/database/index.ts';
import { type AuditConfig, commandLine } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { isDate, isRowId, parseTimestamp } from '../../../engine/fields/index.ts';
import {
  type CommandLine,
  type CommandResult,
  formatTable,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { organizationId, transaction } from '../../../engine/tables/index.ts';
import { profileId } from '../profiles/index.ts';
import type { KeyConfig } from './authentication.ts';
import { createKey, listKeys, revokeKey, rotateKey } from './keys.ts';

type Line = CommandLine<{ readonly config: KeyConfig & AuditConfig; readonly database: Database }>;

/** Adds the `key` commands. */
export function keyCommands(line: Line): void {
  const { program, run } = line;
  const key = program.command('key').description("manage an organization's API keys");
  key
    .command('create')
    .description('create an API key; the key is printed once')
    .addOption(organizationOption())
    .requiredOption('--profile <name>', "the key's profile, for example read-only")
    .option('--name <name>', 'name of the key', 'API key')
    .option('--expires <time>', 'expiry time, for example 2027-01-31; default: never')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, create(line, options)));
  key
    .command('list')
    .description('list API keys without their secrets')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, list(line, options)));
  key
    .command('revoke <id>')
    .description('revoke an API key permanently')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((id, { json, ...options }) => run(json, revoke(line, id, options)));
  key
    .command('rotate <id>')
    .description('replace an API key, keeping its name, profile and expiry; the new key is printed once')
    .addOption(organizationOption())
    .option('--overlap <hours>', 'how long the old key stays valid, from 0 to 720 hours', '24')
    .addOption(jsonResult())
    .action((id, { json, ...options }) => run(json, rotate(line, id, options)));
}

const create = (
  { withInstance }: Line,
  options: {
    org: string;
    profile: string;
    name: string;
    expires?: string | undefined;
  },
): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    const actor = commandLine(config);
    const expiresAt = parseExpiry(options.expires);
    const key = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, options.org);
      const profile = await profileId(tables, organization, options.profile);
      return createKey(tables, actor, config.keyPrefix, {
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
      text: [
        `Key ${key.id} created for "${options.org}" as ${options.profile}, ${expiresAt === null ? 'without an expiry (--expires sets one)' : `until ${expiresAt.toISOString()}`}. Shown only once:`,
        key.plaintext,
      ].join('\n'),
    };
  });

const list = ({ withInstance }: Line, { org }: { org: string }): Promise<CommandResult> =>
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
          : formatTable(['id', 'name', 'profile', 'key', 'created', 'last used', 'state'], rows),
    };
  });

const revoke = ({ withInstance }: Line, id: string, { org }: { org: string }): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    assertKeyId(id);
    const actor = commandLine(config);
    await transaction(database, async (tables) =>
      revokeKey(tables, actor, await organizationId(tables, org), id),
    );
    return {
      json: { id, revoked: true },
      text: `Key ${id} revoked. Every node rejects it within a second.`,
    };
  });

const rotate = (
  { withInstance }: Line,
  id: string,
  { org, overlap }: { org: string; overlap: string },
): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    assertKeyId(id);
    if (!/^\d{1,3}$/.test(overlap) || +overlap > 720) {
      throw new UserError(`--overlap must be from 0 to 720 hours, not "${overlap}"`);
    }
    const actor = commandLine(config);
    const key = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, org);
      const previous = { organization, id, overlapMs: +overlap * 3_600_000 };
      return rotateKey(tables, actor, config.keyPrefix, previous);
    });
    return {
      json: { id: key.id, key: key.plaintext, name: key.name, last_four: key.lastFour, replaces: id },
      text: [
        `Key ${key.id} replaces key ${id}, which expires ${+overlap === 0 ? 'now' : `in ${overlap} hours`}. Shown only once:`,
        key.plaintext,
      ].join('\n'),
    };
  });

/** Checks that a text is a valid row ID. @throws UserError if it is not */
function assertKeyId(id: string): void {
  if (!isRowId(id)) throw new UserError(`"${id}" is not a key ID. "crm key list" lists all keys.`);
}

/**
 * Parses a future date or RFC 3339 timestamp.
 * @returns null if the option is absent
 * @throws UserError if the time is invalid or in the past
 */
function parseExpiry(text: string | undefined): Date | null {
  if (text === undefined) return null;
  const at = new Date(text);
  if (!isDate(text) && parseTimestamp(text) === undefined) {
    throw new UserError(`"${text}" is not a time. Use 2027-01-31 or 2027-01-31T12:00:00Z.`);
  }
  if (at.getTime() <= Date.now()) throw new UserError(`${text} is in the past`);
  return at;
}
