import { isIP } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Database } from '../../../engine/database/index.ts';
import { UserError } from '../../../engine/errors.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { claimForm, type Form, field } from '../../admin-ui/shell/index.ts';
import type { KnownUser } from '../identity/index.ts';
import { type InstanceSecrets, makeSecret, tickets } from '../secrets/index.ts';

/** What a page needs to ask a browser for a passkey. */
export interface PasskeyOffer {
  /** For `navigator.credentials`, JSON. */
  readonly options: string;
  /** Comes back with the browser's response. */
  readonly ticket: string;
}

/** A new passkey that the browser has proven. */
export interface NewPasskey {
  readonly credential: string;
  readonly publicKey: string;
  readonly uses: string;
  readonly transports: string;
}

/** Passkeys (WebAuthn). Each verifies its user by itself, so that a login with one takes neither password nor code. */
export interface Passkeys {
  /** Asks for any passkey of this instance; undefined where the address of the page is a number: browsers need a name. */
  readonly offer: (request: FastifyRequest) => Promise<PasskeyOffer | undefined>;
  /** The user of the passkey that a form has the response of; undefined if it is not valid, or was sent before. */
  readonly use: (request: FastifyRequest, form: Form) => Promise<KnownUser | undefined>;
  /** Asks for a new passkey of a user; undefined as for `offer`. */
  readonly offerNew: (request: FastifyRequest, user: KnownUserName) => Promise<PasskeyOffer | undefined>;
  /** The new passkey that a form has the response of; undefined if it is not valid. */
  readonly verifyNew: (
    request: FastifyRequest,
    user: KnownUserName,
    form: Form,
  ) => Promise<NewPasskey | undefined>;
}

type KnownUserName = Pick<KnownUser, 'id' | 'email'>;

interface Challenge {
  readonly challenge: string;
  /** Whose new passkey it is for; null: a login. */
  readonly user: string | null;
}

/** EdDSA, ES256 and RS256 (COSE): what every authenticator has at least one of. */
const supportedAlgorithmIDs = [-8, -7, -257];

/** Minutes that a page with an offer is valid. */
const lifetime = 15;

export function passkeys(app: FastifyInstance, database: Database, secrets: InstanceSecrets): Passkeys {
  const challenges = tickets<Challenge>(secrets, 'passkey', lifetime);
  /** The origin of the page and the name that passkeys belong to. */
  const partyOf = (request: FastifyRequest) => {
    const origin = app.site.origin(request);
    if (!URL.canParse(origin)) return undefined;
    const { hostname } = new URL(origin);
    return isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? { origin, id: hostname } : undefined;
  };
  /** What the browser sent, if it belongs to a challenge that was made for this user. */
  const opened = async (request: FastifyRequest, form: Form, user: string | null) => {
    const party = partyOf(request);
    const made = await challenges.open(field(form, 'ticket'));
    const response = parsed(field(form, 'credential'));
    if (party === undefined || response === undefined || made?.user !== user) return undefined;
    return {
      response,
      expectedChallenge: made.challenge,
      expectedOrigin: party.origin,
      expectedRPID: party.id,
      requireUserVerification: true,
    };
  };
  // Loaded when it is needed: many instances have no passkeys.
  const library = () => import('@simplewebauthn/server');

  return {
    offer: async (request) => {
      const party = partyOf(request);
      if (party === undefined) return undefined;
      const challenge = makeSecret();
      const options = { challenge, rpId: party.id, userVerification: 'required' };
      return { options: JSON.stringify(options), ticket: await challenges.issue({ challenge, user: null }) };
    },
    use: async (request, form) => {
      const sent = await opened(request, form, null);
      if (sent === undefined) return undefined;
      const known = await findPasskey(tablesOf(database), sent.response.id);
      if (known === undefined) return undefined;
      const { verifyAuthenticationResponse } = await library();
      const { verified, authenticationInfo } = await verifyAuthenticationResponse({
        ...sent,
        response: sent.response as Parameters<typeof verifyAuthenticationResponse>[0]['response'],
        credential: {
          id: known.credential,
          publicKey: Uint8Array.from(Buffer.from(known.public_key, 'base64url')),
          counter: Number(known.uses),
        },
      }).catch(() => ({ verified: false, authenticationInfo: undefined }));
      if (!verified || authenticationInfo === undefined) return undefined;
      const isFirst = await transaction(database, async (tables) => {
        await claimForm(tables, sent.expectedChallenge);
        await tables
          .updateTable('crm_passkeys')
          .set({ uses: String(authenticationInfo.newCounter), last_used_at: new Date() })
          .where('id', '=', known.id)
          .execute();
        return true;
      }).catch((cause: unknown) => {
        if (cause instanceof UserError) return false;
        throw cause;
      });
      return isFirst
        ? { id: known.user_id, email: known.email, tokenVersion: known.token_version }
        : undefined;
    },
    offerNew: async (request, user) => {
      const party = partyOf(request);
      if (party === undefined) return undefined;
      const { generateRegistrationOptions } = await library();
      const known = await tablesOf(database)
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
        excludeCredentials: known,
        supportedAlgorithmIDs,
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
      });
      const ticket = await challenges.issue({ challenge: options.challenge, user: user.id });
      return { options: JSON.stringify(options), ticket };
    },
    verifyNew: async (request, user, form) => {
      const sent = await opened(request, form, user.id);
      if (sent === undefined) return undefined;
      const { verifyRegistrationResponse } = await library();
      const response = sent.response as Parameters<typeof verifyRegistrationResponse>[0]['response'];
      const { verified, registrationInfo } = await verifyRegistrationResponse({
        ...sent,
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

/** Stores a passkey. @throws UserError if it is there already */
export async function storePasskey(
  tables: Tables,
  user_id: string,
  { credential, publicKey, uses, transports }: NewPasskey,
  name: string,
): Promise<void> {
  const stored = await tables
    .insertInto('crm_passkeys')
    .values({ user_id, credential, public_key: publicKey, uses, transports, name, last_used_at: null })
    .onConflict((conflict) => conflict.doNothing())
    .returning('id')
    .executeTakeFirst();
  if (stored === undefined) throw new UserError('this passkey is already registered');
}

const findPasskey = (tables: Tables, credential: string) =>
  tables
    .selectFrom('crm_passkeys as p')
    .innerJoin('crm_users as u', 'u.id', 'p.user_id')
    .select(['p.id', 'p.user_id', 'p.credential', 'p.public_key', 'p.uses', 'u.email', 'u.token_version'])
    .where('p.credential', '=', credential)
    .where('u.disabled_at', 'is', null)
    .executeTakeFirst();

/** The response of a browser; undefined if it is none. What is in it, the library checks. */
function parsed(text: string): { readonly id: string } | undefined {
  try {
    const { id, ...rest } = JSON.parse(text) as { id?: unknown };
    return typeof id === 'string' && /^[\w-]{1,1400}$/.test(id) ? { id, ...rest } : undefined;
  } catch {
    return undefined;
  }
}
