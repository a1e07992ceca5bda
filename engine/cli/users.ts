import { UserError } from '../errors.ts';
import {
  type Actor,
  addExisting,
  commandLine,
  createUser,
  disableUser,
  enableUser,
  findUserBy,
  listUsers,
  makePassword,
  normalEmail,
  organizationId,
  type Platform,
  profileId,
  resetPassword,
  transaction,
  type UserInfo,
  userFor,
  verifyAddress,
} from '../platform/index.ts';
import { firstLineOfInput, type Result, table, withInstance } from './context.ts';

/** `user create <email>`. */
export const userCreate = (
  given: string,
  options: { org: string; profile: string; passwordStdin?: true | undefined; existing?: true | undefined },
): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const by = commandLine(config);
    const email = normalEmail(given);
    const { existing = false } = options;
    if (existing && options.passwordStdin) {
      throw new UserError(
        '--existing keeps the password: leave out --password-stdin, or use "user reset-password"',
      );
    }
    const { password, shown } = await passwordFor(options);
    const id = await transaction(database, async (tables) => {
      const organization = await organizationId(tables, options.org);
      const profile = await profileId(tables, organization, options.profile);
      if (existing) return addExisting(tables, by, { email, organization, profile });
      if ((await userFor(tables, email, organization)) !== undefined) {
        throw new UserError(
          `${email} is known already: --existing makes it a member of "${options.org}" with the password it has`,
        );
      }
      return createUser(tables, by, { email, organization, profile, password: () => password });
    });
    const text = existing
      ? `User ${email} is now ${options.profile} of "${options.org}" too; the password is as it was.`
      : `User ${email} made, as ${options.profile} of "${options.org}".`;
    return {
      json: {
        id,
        email,
        organization: options.org,
        profile: options.profile,
        created: !existing,
        ...(existing ? {} : shown.json),
      },
      text: existing ? text : `${text}${shown.text}`,
    };
  });

/** `user list`. */
export const userList = ({ org }: { org?: string | undefined }): Promise<Result> =>
  withInstance(async ({ database }) => {
    const users = await transaction(database, async (tables) =>
      listUsers(tables, org === undefined ? {} : { organization: await organizationId(tables, org) }),
    );
    const rows = users.map((user) => [user.id, user.email, state(user), membershipsOf(user)]);
    return {
      json: { users },
      text: users.length === 0 ? 'There are no users.' : table(['id', 'e-mail', 'state', 'member of'], rows),
    };
  });

/** `user show <user>`. */
export const userShow = (wanted: string): Promise<Result> =>
  withInstance(async ({ database }) => {
    const user = await transaction(database, (tables) => findUserBy(tables, wanted));
    const rows = [
      ['e-mail', user.email],
      ['state', state(user)],
      ['member of', membershipsOf(user)],
      ['sessions', String(user.sessions)],
      ['created', user.created_at],
    ];
    return { json: { ...user }, text: table(['id', user.id], rows) };
  });

/** `user reset-password <user>`. */
export const userResetPassword = (
  wanted: string,
  options: { passwordStdin?: true | undefined },
): Promise<Result> =>
  withInstance(async ({ database, config }) => {
    const { password, shown } = await passwordFor(options);
    const user = await transaction(database, async (tables) => {
      const user = await findUserBy(tables, wanted);
      await resetPassword(tables, commandLine(config), user, password);
      return user;
    });
    return {
      json: { id: user.id, email: user.email, sessions_ended: user.sessions, ...shown.json },
      text: `User ${user.email} has another password; ${user.sessions} session(s) ended.${shown.text}`,
    };
  });

/** A command that changes the state of one user. */
const change =
  (
    act: (tables: Platform, by: Actor, user: UserInfo) => Promise<void>,
    json: Readonly<Record<string, unknown>>,
    text: string,
  ) =>
  (wanted: string): Promise<Result> =>
    withInstance(async ({ database, config }) => {
      const user = await transaction(database, async (tables) => {
        const user = await findUserBy(tables, wanted);
        await act(tables, commandLine(config), user);
        return user;
      });
      return { json: { id: user.id, email: user.email, ...json }, text: `User ${user.email} ${text}` };
    });

/** `user disable <user>`. */
export const userDisable = change(
  disableUser,
  { disabled: true },
  'is disabled; sessions and tokens end on every node within a second, keys go on.',
);

/** `user enable <user>`. */
export const userEnable = change(enableUser, { disabled: false }, 'can log in again.');

/** `user verify <user>`. */
export const userVerify = change(
  verifyAddress,
  { verified: true },
  'is verified; other organizations may add the user.',
);

/** The password to set, and what is shown of it: what was given is not. */
async function passwordFor({ passwordStdin }: { passwordStdin?: true | undefined }) {
  if (passwordStdin) return { password: await firstLineOfInput(), shown: { json: {}, text: '' } };
  const password = makePassword();
  return { password, shown: { json: { password }, text: `\nPassword, shown this once: ${password}` } };
}

const state = ({ organization, disabled_at, verified_at }: UserInfo): string =>
  [
    verified_at !== null
      ? 'verified'
      : organization === null
        ? 'unverified'
        : `unverified, of "${organization}"`,
    ...(disabled_at === null ? [] : ['disabled']),
  ].join(', ');

const membershipsOf = ({ memberships }: UserInfo): string =>
  memberships.map(({ organization, profile }) => `${organization} (${profile})`).join(', ') || 'none';
