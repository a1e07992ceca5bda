import { Option } from '@commander-js/extra-typings';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { isDate, isRowId, isTimestamp } from '../../../engine/fields/index.ts';
import {
  type CommandLine,
  formatTable,
  inOrganization,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { listRows } from '../../../engine/tables/index.ts';
import { findMember } from '../identity/index.ts';
import { profileId } from '../profiles/index.ts';
import type { KeyConfig } from './authentication.ts';
import { keyAccesses } from './key-access.ts';
import { createKey, keyRows, revokeKey, rotateKey } from './keys.ts';

/** Maximum time for which the old key stays valid after a rotation, in hours. */
const maxOverlapHours = 720;

/** Adds the `key` commands. */
export function keyCommands(
  line: CommandLine<{ readonly config: KeyConfig & AuditConfig; readonly database: Database }>,
): void {
  const key = line.program.command('key').description("manage an organization's API keys");
  key
    .command('create')
    .description('create an API key; the key is printed once')
    .addOption(organizationOption())
    .requiredOption('--profile <name>', "the key's profile, for example read-only")
    .option('--name <name>', 'name of the key', 'API key')
    .addOption(
      new Option('--access <access>', 'what the key can do with the grants of its profile')
        .choices(keyAccesses)
        .default('write' as const),
    )
    .option('--on-behalf-of <user>', 'email address or ID of a member whose grants also limit the key')
    .option('--expires <time>', 'expiry time, for example 2027-01-31; default: never')
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, actor, organization, instance: { config } }) => {
        const { org, profile, name, access } = options;
        const expiresAt = parseExpiry(options.expires);
        const member =
          options.onBehalfOf === undefined
            ? undefined
            : await findMember(tables, organization, options.onBehalfOf);
        const created = await createKey(tables, actor, config.keyPrefix, {
          organization,
          profile: await profileId(tables, organization, profile),
          name,
          user: null,
          onBehalfOf: member?.id ?? null,
          access,
          expiresAt,
        });
        return {
          json: {
            id: created.id,
            key: created.plaintext,
            name,
            organization: org,
            profile,
            ...(access !== 'write' && { access }),
            ...(member !== undefined && { on_behalf_of: member.email }),
            last_four: created.lastFour,
            expires_at: expiresAt?.toISOString() ?? null,
          },
          text: [
            `Key ${created.id} created for "${org}" as ${profile}${access === 'write' ? '' : ` (${access})`}${member === undefined ? '' : ` on behalf of ${member.email}`}, ${expiresAt === null ? 'without an expiry (--expires sets one)' : `until ${expiresAt.toISOString()}`}. Shown only once:`,
            created.plaintext,
          ].join('\n'),
        };
      }),
    );
  key
    .command('list')
    .description('list API keys without their secrets')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((options) =>
      inOrganization(line, options, async ({ tables, organization }) => {
        const keys = (await listRows(tables, keyRows, organization)).reverse();
        const rows = keys.map((row) => [
          row.id,
          row.name,
          `${row.profile}${row.access === 'write' ? '' : ` (${row.access})`}${row.on_behalf_of === null ? '' : ` on behalf of ${row.on_behalf_of}`}`,
          `…${row.last_four}`,
          row.created_at.toISOString(),
          row.last_used_at?.toISOString() ?? 'never',
          row.revoked_at !== null
            ? `revoked ${row.revoked_at.toISOString()}`
            : row.expires_at !== null
              ? `until ${row.expires_at.toISOString()}`
              : 'live',
        ]);
        return {
          json: { keys },
          text:
            keys.length === 0
              ? `"${options.org}" has no keys.`
              : formatTable(['id', 'name', 'profile', 'key', 'created', 'last used', 'state'], rows),
        };
      }),
    );
  key
    .command('revoke <id>')
    .description('revoke an API key permanently')
    .addOption(organizationOption())
    .addOption(jsonResult())
    .action((id, options) =>
      inOrganization(line, options, async ({ tables, actor, organization }) => {
        assertKeyId(id);
        await revokeKey(tables, actor, organization, id);
        return {
          json: { id, revoked: true },
          text: `Key ${id} revoked. Every node rejects it within a second.`,
        };
      }),
    );
  key
    .command('rotate <id>')
    .description(
      'replace an API key, keeping its name, profile, access, member and expiry; the new key is printed once',
    )
    .addOption(organizationOption())
    .option('--overlap <hours>', `how long the old key stays valid, from 0 to ${maxOverlapHours} hours`, '24')
    .addOption(jsonResult())
    .action((id, options) =>
      inOrganization(line, options, async ({ tables, actor, organization, instance: { config } }) => {
        assertKeyId(id);
        const { overlap } = options;
        if (!/^\d{1,3}$/.test(overlap) || +overlap > maxOverlapHours)
          throw new UserError(`--overlap must be from 0 to ${maxOverlapHours} hours, not "${overlap}"`);
        const previous = { organization, id, overlapMs: +overlap * 3_600_000 };
        const created = await rotateKey(tables, actor, config.keyPrefix, previous);
        const { name, plaintext, lastFour } = created;
        return {
          json: { id: created.id, key: plaintext, name, last_four: lastFour, replaces: id },
          text: [
            `Key ${created.id} replaces key ${id}, which expires ${+overlap === 0 ? 'now' : `in ${overlap} hours`}. Shown only once:`,
            plaintext,
          ].join('\n'),
        };
      }),
    );
}

/** Checks that a string is a valid row ID. @throws UserError if it is not */
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
  if (!isDate(text) && !isTimestamp(text)) {
    throw new UserError(`"${text}" is not a time. Use 2027-01-31 or 2027-01-31T12:00:00Z.`);
  }
  if (at.getTime() <= Date.now()) throw new UserError(`${text} is in the past`);
  return at;
}
