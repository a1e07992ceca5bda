import type { Database } from '../../../engine/database/index.ts';
import { type Actor, type AuditConfig, commandLine } from '../../../engine/effects/index.ts';
import { UserError } from '../../../engine/errors.ts';
import {
  type CommandLine,
  type CommandResult,
  firstLineOfInput,
  formatTable,
  jsonResult,
  organizationOption,
} from '../../../engine/modules/index.ts';
import { organizationId, type Tables, transaction } from '../../../engine/tables/index.ts';
import {
  addExistingUser,
  createUser,
  disableUser,
  enableUser,
  findUserBy,
  generatePassword,
  listUsers,
  normalEmail,
  personName,
  renameUser,
  resetPassword,
  resetSecondFactor,
  type UserInfo,
  unlinkUser,
  userFor,
  verifyEmail,
} from '../identity/index.ts';
import { profileId } from '../profiles/index.ts';

type Line = CommandLine<{ readonly config: AuditConfig; readonly database: Database }>;

/** Adds the `user` commands, which manage users in all organizations. */
export function userCommands(line: Line): void {
  const { program, run } = line;
  const user = program.command('user').description('manage users of all organizations');
  user
    .command('create <email>')
    .description('create a user and add them to an organization')
    .addOption(organizationOption())
    .requiredOption('--profile <name>', "the user's profile in the organization")
    .option('--name <name>', "the person's name")
    .option(
      '--password-stdin',
      'read the password from standard input; default: generate one and print it once',
    )
    .option('--existing', 'add an existing user to the organization; the password does not change')
    .addOption(jsonResult())
    .action((email, { json, ...options }) => run(json, create(line, email, options)));
  user
    .command('list')
    .description('list users with their states and memberships')
    .option('--org <slug>', 'only members of this organization')
    .addOption(jsonResult())
    .action(({ json, ...options }) => run(json, list(line, options)));
  user
    .command('show <user>')
    .description('show a user, by email address or ID')
    .addOption(jsonResult())
    .action((emailOrId, { json }) => run(json, show(line, emailOrId)));
  user
    .command('set <user>')
    .description('change the name of a user')
    .requiredOption('--name <name>', "the person's name")
    .addOption(jsonResult())
    .action((emailOrId, { json, name }) => run(json, rename(line, emailOrId, name)));
  user
    .command('reset-password <user>')
    .description('change the password of a user and end their sessions')
    .option(
      '--password-stdin',
      'read the password from standard input; default: generate one and print it once',
    )
    .addOption(jsonResult())
    .action((emailOrId, { json, ...options }) => run(json, reset(line, emailOrId, options)));
  user
    .command('reset-second-factor <user>')
    .description('remove the second factors of a user who has lost them, and end their sessions')
    .addOption(jsonResult())
    .action((emailOrId, { json }) => run(json, resetFactor(line, emailOrId)));
  user
    .command('unlink <user>')
    .description(
      'remove a user’s links to OpenID Connect providers; the next login with a provider links the user again',
    )
    .addOption(jsonResult())
    .action((emailOrId, { json }) => run(json, unlink(line, emailOrId)));
  user
    .command('disable <user>')
    .description('disable a user and end their sessions; their API keys stay valid')
    .addOption(jsonResult())
    .action((emailOrId, { json }) => run(json, disable(line, emailOrId)));
  user
    .command('enable <user>')
    .description('enable a disabled user')
    .addOption(jsonResult())
    .action((emailOrId, { json }) => run(json, enable(line, emailOrId)));
  user
    .command('verify <user>')
    .description("mark a user's email address as verified, so that other organizations can add the user")
    .addOption(jsonResult())
    .action((emailOrId, { json }) => run(json, verify(line, emailOrId)));
}

const create = (
  { withInstance }: Line,
  enteredEmail: string,
  options: {
    org: string;
    profile: string;
    name?: string | undefined;
    passwordStdin?: true | undefined;
    existing?: true | undefined;
  },
): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    const actor = commandLine(config);
    const email = normalEmail(enteredEmail);
    const { existing = false } = options;
    if (existing && options.passwordStdin) {
      throw new UserError(
        '--existing keeps the password: leave out --password-stdin, or use "user reset-password"',
      );
    }
    if (existing && options.name !== undefined) {
      throw new UserError('--existing keeps the name: leave out --name, or use "user set"');
    }
    const name = options.name === undefined ? undefined : personName(options.name);
    const { password, output } = await passwordFor(options);
    const id = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, options.org);
      const profile = await profileId(tables, organization, options.profile);
      if (existing) return addExistingUser(tables, actor, { email, organization, profile });
      if ((await userFor(tables, email, organization)) !== undefined) {
        throw new UserError(
          `${email} is already registered. Pass --existing to add it to "${options.org}" with its current password.`,
        );
      }
      return createUser(tables, actor, { email, name, organization, profile, password: () => password });
    });
    const text = existing
      ? `User ${email} is now ${options.profile} of "${options.org}" too. The password did not change.`
      : `User ${email} created as ${options.profile} of "${options.org}".`;
    return {
      json: {
        id,
        email,
        organization: options.org,
        profile: options.profile,
        created: !existing,
        ...(existing ? {} : output.json),
      },
      text: existing ? text : `${text}${output.text}`,
    };
  });

const list = ({ withInstance }: Line, { org }: { org?: string | undefined }): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const users = await transaction(database, async (tables) =>
      listUsers(tables, org === undefined ? {} : { organization: await organizationId(tables, org) }),
    );
    const rows = users.map((user) => [
      ...[user.id, user.email, user.name ?? ''],
      ...[state(user), membershipsOf(user)],
    ]);
    return {
      json: { users },
      text:
        users.length === 0
          ? 'No users found.'
          : formatTable(['id', 'e-mail', 'name', 'state', 'member of'], rows),
    };
  });

const show = ({ withInstance }: Line, emailOrId: string): Promise<CommandResult> =>
  withInstance(async ({ database }) => {
    const user = await transaction(database, (tables) => findUserBy(tables, emailOrId));
    const rows = [
      ['e-mail', user.email],
      ['name', user.name ?? ''],
      ['state', state(user)],
      ['member of', membershipsOf(user)],
      ['second factor', user.second_factor ? 'yes' : 'no'],
      ['sessions', String(user.sessions)],
      ['created', user.created_at],
    ];
    return { json: { ...user }, text: formatTable(['id', user.id], rows) };
  });

const rename = ({ withInstance }: Line, emailOrId: string, name: string): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    const user = await transaction(database, async (tables) => {
      const user = await findUserBy(tables, emailOrId);
      await renameUser(tables, commandLine(config), user, name);
      return findUserBy(tables, user.id);
    });
    return {
      json: { id: user.id, email: user.email, name: user.name },
      text: `User ${user.email} is now named ${user.name}.`,
    };
  });

const reset = (
  { withInstance }: Line,
  emailOrId: string,
  options: { passwordStdin?: true | undefined },
): Promise<CommandResult> =>
  withInstance(async ({ database, config }) => {
    const { password, output } = await passwordFor(options);
    const user = await transaction(database, async (tables) => {
      const user = await findUserBy(tables, emailOrId);
      await resetPassword(tables, commandLine(config), user, password);
      return user;
    });
    return {
      json: { id: user.id, email: user.email, sessions_ended: user.sessions, ...output.json },
      text: `User ${user.email} has a new password; ${user.sessions} session(s) ended.${output.text}`,
    };
  });

/** Returns a command handler that changes one user's state. */
const change =
  (
    update: (tables: Tables, actor: Actor, user: UserInfo) => Promise<void>,
    json: Readonly<Record<string, unknown>>,
    text: string,
  ) =>
  ({ withInstance }: Line, emailOrId: string): Promise<CommandResult> =>
    withInstance(async ({ database, config }) => {
      const user = await transaction(database, async (tables) => {
        const user = await findUserBy(tables, emailOrId);
        await update(tables, commandLine(config), user);
        return user;
      });
      return { json: { id: user.id, email: user.email, ...json }, text: `User ${user.email} ${text}` };
    });

const disable = change(
  disableUser,
  { disabled: true },
  'is disabled. Sessions and tokens end on every node within a second; API keys stay valid.',
);

const resetFactor = change(
  resetSecondFactor,
  { second_factor: false },
  'no longer has a second factor. Sessions and tokens end on every node within a second.',
);

const unlink = change(
  unlinkUser,
  { unlinked: true },
  'is no longer linked to a provider. The next login with a provider links it again.',
);

const enable = change(enableUser, { disabled: false }, 'can log in again.');

const verify = change(verifyEmail, { verified: true }, 'is verified. Other organizations can add the user.');

/** Reads or generates a password. Only a generated password is printed. */
async function passwordFor({ passwordStdin }: { passwordStdin?: true | undefined }) {
  if (passwordStdin) return { password: await firstLineOfInput(), output: { json: {}, text: '' } };
  const password = generatePassword();
  return { password, output: { json: { password }, text: `\nPassword (shown only once): ${password}` } };
}

const state = ({ organization, disabled_at, verified_at }: UserInfo): string =>
  [
    verified_at !== null
      ? 'verified'
      : organization === null
        ? 'unverified'
        : `unverified, in "${organization}"`,
    ...(disabled_at === null ? [] : ['disabled']),
  ].join(', ');

const membershipsOf = ({ memberships }: UserInfo): string =>
  memberships.map(({ organization, profile }) => `${organization} (${profile})`).join(', ') || 'none';
