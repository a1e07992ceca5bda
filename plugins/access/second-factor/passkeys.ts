import { isIP } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { claimForm, type Form, field, TranslatedError } from '../../admin-ui/shell/index.ts';
import type { AuthenticatedUser } from '../identity/index.ts';
import { generateSecret, type InstanceSecrets, tickets } from '../secrets/index.ts';
import { secondFactorTexts } from './texts/index.ts';

/** Data that a page needs to request a passkey from the browser. */
interface PasskeyOffer {
  /** Options for `navigator.credentials`, as JSON. */
  readonly options: string;
  /** Ticket that the form submits together with the browser's response. */
  readonly ticket: string;
}

/** A new, verified passkey. */
interface NewPasskey {
  readonly credential: string;
  readonly publicKey: string;
  readonly uses: string;
  readonly transports: string;
}

/**
 * Passkeys (WebAuthn). A passkey also verifies its user, so a login with a passkey requires neither a
 * password nor a code.
 */
export interface Passkeys {
  /**
   * Creates an offer that accepts any passkey registered with this instance. Returns undefined if the page's
   * host is an IP address, because browsers require a host name.
   */
  readonly offer: (request: FastifyRequest) => Promise<PasskeyOffer | undefined>;
  /**
   * Verifies the browser's response in a form. Returns the passkey's user, or undefined if the response is
   * not valid or has already been used.
   */
  readonly use: (request: FastifyRequest, form: Form) => Promise<AuthenticatedUser | undefined>;
  /** Creates an offer to register a new passkey. Returns undefined in the same case as `offer`. */
  readonly offerNew: (request: FastifyRequest, user: UserRef) => Promise<PasskeyOffer | undefined>;
  /** Verifies the browser's response in a form. Returns the new passkey, or undefined if it is not valid. */
  readonly verifyNew: (request: FastifyRequest, user: UserRef, form: Form) => Promise<NewPasskey | undefined>;
}

type UserRef = Pick<AuthenticatedUser, 'id' | 'email'>;

interface Challenge {
  readonly challenge: string;
  /** ID of the user who adds a passkey; null for a login. */
  readonly user: string | null;
}

/** COSE identifiers for EdDSA, ES256 and RS256. Every authenticator supports at least one of them. */
const supportedAlgorithmIDs = [-8, -7, -257];

/** Lifetime of an offer, in minutes. */
const lifetimeMinutes = 15;

export function passkeys(app: FastifyInstance, database: Database, secrets: InstanceSecrets): Passkeys {
  const challenges = tickets<Challenge>(secrets, 'passkey', lifetimeMinutes);
  /** Returns the page's origin and the relying party ID of its passkeys, or undefined if the host is an IP address. */
  const partyOf = (request: FastifyRequest) => {
    const origin = app.site.origin(request);
    if (!URL.canParse(origin)) return undefined;
    const { hostname } = new URL(origin);
    return isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? { origin, id: hostname } : undefined;
  };
  /** Returns the browser's response, if it answers a challenge issued for this user. */
  const readResponse = async (request: FastifyRequest, form: Form, user: string | null) => {
    const party = partyOf(request);
    const issuedChallenge = await challenges.open(field(form, 'ticket'));
    const response = parseResponse(field(form, 'credential'));
    if (party === undefined || response === undefined || issuedChallenge?.user !== user) return undefined;
    return {
      response,
      expectedChallenge: issuedChallenge.challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
    };
  };
  // Loaded on first use, because many instances have no passkeys.
  const library = () => import('@simplewebauthn/server');

  return {
    offer: async (request) => {
      const party = partyOf(request);
      if (party === undefined) return undefined;
      const challenge = generateSecret();
      const options = { challenge, rpId: party.id, userVerification: 'required' };
      return { options: JSON.stringify(options), ticket: await challenges.issue({ challenge, user: null }) };
    },
    use: async (request, form) => {
      const answer = await readResponse(request, form, null);
      if (answer === undefined) return undefined;
      const passkey = await findPasskey(tablesOf(database), answer.response.id);
      if (passkey === undefined) return undefined;
      const { verifyAuthenticationResponse } = await library();
      const { verified, authenticationInfo } = await verifyAuthenticationResponse({
        ...answer,
        response: answer.response as Parameters<typeof verifyAuthenticationResponse>[0]['response'],
        credential: {
          id: passkey.credential,
          publicKey: Uint8Array.from(Buffer.from(passkey.public_key, 'base64url')),
          counter: Number(passkey.uses),
        },
      }).catch(() => ({ verified: false, authenticationInfo: undefined }));
      if (!verified || authenticationInfo === undefined) return undefined;
      const isFirst = await transaction(database, async (tables) => {
        await claimForm(tables, answer.expectedChallenge);
        await tables
          .updateTable('crm_passkeys')
          .set({ uses: String(authenticationInfo.newCounter), last_used_at: new Date() })
          .where('id', '=', passkey.id)
          .execute();
        return true;
      }).catch((cause: unknown) => {
        if (cause instanceof UserError) return false;
        throw cause;
      });
      return isFirst
        ? {
            id: passkey.user_id,
            email: passkey.email,
            name: passkey.name,
            tokenVersion: passkey.token_version,
          }
        : undefined;
    },
    offerNew: async (request, user) => {
      const party = partyOf(request);
      if (party === undefined) return undefined;
      const { generateRegistrationOptions } = await library();
      const existing = await tablesOf(database)
        .selectFrom('crm_passkeys')
        .select('credential as id')
        .where('user_id', '=', user.id)
        .execute();
      const options = await generateRegistrationOptions({
        rpName: 'CRM',
        rpID: party.id,
        userName: user.email,
        userDisplayName: user.email,
        userID: new TextEncoder().encode(user.id),
        excludeCredentials: existing,
        supportedAlgorithmIDs,
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      });
      const ticket = await challenges.issue({ challenge: options.challenge, user: user.id });
      return { options: JSON.stringify(options), ticket };
    },
    verifyNew: async (request, user, form) => {
      const answer = await readResponse(request, form, user.id);
      if (answer === undefined) return undefined;
      const { verifyRegistrationResponse } = await library();
      const response = answer.response as Parameters<typeof verifyRegistrationResponse>[0]['response'];
      const { verified, registrationInfo } = await verifyRegistrationResponse({
        ...answer,
        response,
        supportedAlgorithmIDs,
      }).catch(() => ({ verified: false, registrationInfo: undefined }));
      if (!verified || registrationInfo === undefined) return undefined;
      const { id, publicKey, counter, transports = [] } = registrationInfo.credential;
      return {
        credential: id,
        publicKey: Buffer.from(publicKey).toString('base64url'),
        uses: String(counter),
        transports: transports.join(','),
      };
    },
  };
}

/** Stores a passkey. @throws UserError if it is already registered */
export async function storePasskey(
  tables: Tables,
  user_id: string,
  { credential, publicKey, uses, transports }: NewPasskey,
  name: string,
): Promise<void> {
  const row = await tables
    .insertInto('crm_passkeys')
    .values({ user_id, credential, public_key: publicKey, uses, transports, name, last_used_at: null })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) throw new TranslatedError(secondFactorTexts.later('passkeyRegistered'));
}

const findPasskey = (tables: Tables, credential: string) =>
  tables
    .selectFrom('crm_passkeys as p')
    .innerJoin('crm_users as u', 'u.id', 'p.user_id')
    .select([
      'p.id',
      'p.user_id',
      'p.credential',
      'p.public_key',
      'p.uses',
      'u.email',
      'u.name',
      'u.token_version',
    ])
    .where('p.credential', '=', credential)
    .where('u.disabled_at', 'is', null)
    .executeTakeFirst();

/**
 * Parses a browser's response. The library validates its content. @returns undefined if the string is not a
 * response
 */
function parseResponse(text: string): { readonly id: string } | undefined {
  try {
    const { id, ...rest } = JSON.parse(text) as { id?: unknown };
    return typeof id === 'string' && /^[\w-]{1,1400}$/.test(id) ? { id, ...rest } : undefined;
  } catch {
    return undefined;
  }
}
