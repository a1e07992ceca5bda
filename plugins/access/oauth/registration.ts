import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import { errors, UserError } from '../../../engine/errors.ts';
import { deleteExpired } from '../../../engine/modules/index.ts';
import { readBody } from '../../../engine/records/index.ts';
import { type Tables, tablesOf, transaction } from '../../../engine/tables/index.ts';
import { attempts, networkOf } from '../rate-limiting/index.ts';
import { generatePublicId } from '../secrets/index.ts';
import { type Client, clientDocuments, clientOf, type Metadata } from './clients.ts';
import { OAuthError, sendUncached } from './responses.ts';
import { hasRegistration, type OAuthServices, requireIssuer } from './services.ts';

/** Prefix of the IDs of registered clients, which no URL has. */
const prefix = 'registered-';
/** Maximum size of a registration, in bytes. */
const bodyLimit = 5 * 1024;
/** Maximum number of registered clients that no user has allowed to act for them. */
const maxUnused = 1000;
/** Days after which a client is deleted that no user has allowed, or has allowed again. No consent lasts longer. */
const [unusedDays, usedDays] = [1, 90];

/** Finds clients. */
export interface ClientRegistry {
  /** @throws UserError if the client does not exist or its metadata document is not valid */
  readonly findClient: (id: string) => Promise<Client>;
  /** Stores, in a transaction, that a user has allowed a client, so that a registered client remains registered. */
  readonly recordUse: (tables: Tables, client: Client) => Promise<void>;
}

/** Creates a registry of the clients with a metadata document and, if registration is enabled, the registered clients. */
export function clientRegistry(services: OAuthServices): ClientRegistry {
  const { database, settings } = services;
  const documents = clientDocuments(() => settings.current.events);
  const findRegistered = async (id: string): Promise<Client> => {
    const row = hasRegistration(services)
      ? await tablesOf(database)
          .selectFrom('crm_oauth_clients')
          .select(['name', 'redirect_uris'])
          .where('id', '=', id.slice(0, 100))
          .executeTakeFirst()
      : undefined;
    if (row === undefined) throw new UserError('the client is not registered');
    return { id, name: row.name, redirectUris: JSON.parse(row.redirect_uris) as string[] };
  };
  return {
    findClient: (id) => (id.startsWith(prefix) ? findRegistered(id) : documents.find(id)),
    recordUse: async (tables, { id }) => {
      if (!id.startsWith(prefix)) return;
      await tables
        .updateTable('crm_oauth_clients')
        .set({ last_used_at: new Date() })
        .where('id', '=', id)
        .execute();
    },
  };
}

/** Deletes a batch of registered clients that are no longer used. @returns the number of deleted rows */
export const clientsRetention = (tables: Tables): Promise<number> =>
  deleteExpired(
    tables,
    'crm_oauth_clients',
    ['id'],
    sql`last_used_at < now() - ${usedDays}::int * interval '1 day'
      or (last_used_at is null and created_at < now() - ${unusedDays}::int * interval '1 day')`,
    'created_at',
  );

/** Registers the route with which clients register (RFC 7591). */
export function registrationRoute(scope: FastifyInstance, services: OAuthServices): void {
  const perNetwork = attempts('OAuth registrations', { failures: 20, waiting: 10 });
  scope.post('/oauth/register', { bodyLimit }, async (request, reply) => {
    requireIssuer(request);
    if (!hasRegistration(services)) throw errors.notFound();
    // Every registration counts, not only failures.
    await perNetwork.run(networkOf(request), async () => undefined);
    const client = registeredClient(readBody(request.headers['content-type'], request.body));
    await transaction(services.database, async (tables) => {
      await assertNotFull(tables);
      await tables
        .insertInto('crm_oauth_clients')
        .values({
          id: client.id,
          name: client.name,
          redirect_uris: JSON.stringify(client.redirectUris),
          last_used_at: null,
        })
        .execute();
    });
    return sendUncached(reply.code(201), {
      client_id: client.id,
      client_id_issued_at: Math.floor(Date.now() / 1000),
      ...(client.name !== '' && { client_name: client.name }),
      redirect_uris: client.redirectUris,
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    });
  });
}

/** Returns the client in a registration. All clients are public, whatever method they request. @throws OAuthError */
function registeredClient(metadata: Metadata): Client {
  try {
    return clientOf(prefix + generatePublicId(), { ...metadata, token_endpoint_auth_method: 'none' });
  } catch (cause) {
    throw cause instanceof UserError ? new OAuthError('invalid_redirect_uri', cause.message) : cause;
  }
}

/** @throws HttpError 429 if too many registered clients are unused */
async function assertNotFull(tables: Tables): Promise<void> {
  const { count } = await tables
    .selectFrom('crm_oauth_clients')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('last_used_at', 'is', null)
    .executeTakeFirstOrThrow();
  if (Number(count) >= maxUnused) throw errors.tooManyAttempts(3600);
}
