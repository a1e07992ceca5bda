import {
  type KnownUser,
  type Membership,
  membershipNamed,
  type Proof,
  type Session,
  type User,
} from '../identity/index.ts';

/** The credentials of a login. */
export interface Credentials {
  readonly email: string;
  readonly password: string;
}

/**
 * Chooses between users of one address that the password matches: unverified ones differ by organization.
 * @returns undefined for none
 */
export type PickUser = (users: readonly Candidate[]) => Candidate | undefined;

/** A user whose password matched, with its memberships. */
export interface Candidate {
  readonly user: KnownUser;
  readonly memberships: ReadonlyMap<string, Membership>;
}

/** Picks the user that is a member of an organization; the first if none is named. */
export const pickBy =
  (slug: string | undefined): PickUser =>
  (users) =>
    slug === undefined ? users[0] : users.find(({ memberships }) => membershipNamed(memberships, slug));

/** The result of a login. */
export interface Login {
  readonly user: { readonly id: string; readonly email: string };
  readonly jti: string;
  readonly tokenVersion: number;
  readonly expires: Date;
  readonly memberships: ReadonlyMap<string, Membership>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The user of an e-mail address and a password. A second factor is not asked for.
     * @throws HttpError 401 if they are wrong, 429 after too many attempts
     */
    provePassword: (request: FastifyRequest, credentials: Credentials, pick?: PickUser) => Promise<Candidate>;
    /**
     * Begins a session for a user whose identity is proven, and sets its cookie.
     * @throws HttpError 401 if the user was disabled or every session has been ended since then, or a second factor was
     *   not proven
     */
    logInAs: (
      request: FastifyRequest,
      reply: FastifyReply,
      proven: Candidate,
      proof: Proof,
    ) => Promise<Login>;
    /**
     * Continues a login in a browser: asks for the second factor if the user has one and it is not proven; otherwise it
     * begins a session.
     * @param proof how the user is proven so far
     * @param next the path to continue at
     */
    continueLogin: (
      request: FastifyRequest,
      reply: FastifyReply,
      proven: Candidate,
      login: { readonly proof: Proof; readonly next: string },
    ) => Promise<FastifyReply>;
    /**
     * Verifies a password; wrong ones count for the user and the address.
     * @param user whose password it is
     * @throws HttpError 429 with Retry-After after too many wrong passwords
     */
    verify: (request: FastifyRequest, user: Pick<User, 'id' | 'email'>, password: string) => Promise<boolean>;
    /** Ends a session and clears its cookie. */
    logOut: (request: FastifyRequest, reply: FastifyReply, session: Session) => Promise<void>;
    /** Ends every session of a person and voids their tokens. */
    logOutEverywhere: (request: FastifyRequest, reply: FastifyReply, session: Session) => Promise<void>;
  }
}
