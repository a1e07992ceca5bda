import {
  type AuthenticatedUser,
  type Membership,
  membershipBySlug,
  type Proof,
  type Session,
  type User,
} from '../identity/index.ts';

/** Login credentials. */
export interface Credentials {
  readonly email: string;
  readonly password: string;
}

/**
 * Selects one of several users with the same email address and password, for example by organization.
 * @returns undefined to reject all of them
 */
export type PickUser = (users: readonly Candidate[]) => Candidate | undefined;

/** A user whose password matched, with the user's memberships. */
export interface Candidate {
  readonly user: AuthenticatedUser;
  readonly memberships: ReadonlyMap<string, Membership>;
}

/** Selects the user who is a member of an organization, or the first user if the slug is undefined. */
export const pickBy =
  (slug: string | undefined): PickUser =>
  (users) =>
    slug === undefined ? users[0] : users.find(({ memberships }) => membershipBySlug(memberships, slug));

/** A login's result. */
interface Login {
  readonly user: { readonly id: string; readonly email: string; readonly name: string | null };
  readonly jti: string;
  readonly tokenVersion: number;
  readonly expires: Date;
  readonly memberships: ReadonlyMap<string, Membership>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Authenticates a user by email address and password, without a second factor.
     * @throws HttpError 401 if the credentials are wrong; 429 after too many attempts
     */
    provePassword: (request: FastifyRequest, credentials: Credentials, pick?: PickUser) => Promise<Candidate>;
    /**
     * Starts a session for an authenticated user and sets its cookie.
     * @throws HttpError 401 if the user has been disabled or logged out everywhere since authentication, or has not
     * proven the second factor
     */
    logInAs: (
      request: FastifyRequest,
      reply: FastifyReply,
      candidate: Candidate,
      proof: Proof,
    ) => Promise<Login>;
    /**
     * Continues a login in a browser: asks for the second factor if the user has one and has not proven it; otherwise
     * starts a session.
     * @param login `proof` describes how the user has been authenticated so far; `next` is the path to redirect to
     * after the login
     */
    continueLogin: (
      request: FastifyRequest,
      reply: FastifyReply,
      candidate: Candidate,
      login: { readonly proof: Proof; readonly next: string },
    ) => Promise<FastifyReply>;
    /**
     * Verifies a user's password. Wrong passwords count toward the limits for the user and the client's
     * network.
     * @throws HttpError 429 with Retry-After after too many wrong passwords
     */
    verify: (request: FastifyRequest, user: Pick<User, 'id' | 'email'>, password: string) => Promise<boolean>;
    /** Ends a session and clears its cookie. */
    logOut: (request: FastifyRequest, reply: FastifyReply, session: Session) => Promise<void>;
    /** Ends all of a user's sessions and invalidates the user's tokens. */
    logOutEverywhere: (request: FastifyRequest, reply: FastifyReply, session: Session) => Promise<void>;
  }
}
