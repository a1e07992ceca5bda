import formbody from '@fastify/formbody';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { rejectOtherMethods } from '../../../engine/http/index.ts';
import { transaction } from '../../../engine/tables/index.ts';
import { attempts, networkOf } from '../rate-limiting/index.ts';
import { signing } from '../secrets/index.ts';
import { type AccessTokens, accessTokenSeconds } from './access-tokens.ts';
import { isResource, normalQuery } from './authorization-request.ts';
import { type Connection, createConnections } from './connections.ts';
import { registrationRoute } from './registration.ts';
import { OAuthError, sendOAuthError, sendUncached } from './responses.ts';
import {
  hasRegistration,
  type OAuthServices,
  requireIssuer,
  resourceMetadataPath,
  resourceOf,
} from './services.ts';

/** Path of the metadata of the authorization server (RFC 8414). */
const serverMetadataPath = '/.well-known/oauth-authorization-server';
/** Maximum size of a request to the routes below, in bytes. */
const bodyLimit = 16 * 1024;

/** The parameters of a request with a form. */
type Parameters = (name: string) => string | undefined;

/** Returns the parameters of a form. @throws OAuthError if the body is not a form, or a parameter is repeated */
function parametersOf({ body, headers }: FastifyRequest): Parameters {
  if (!/^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? ''))
    throw new OAuthError('invalid_request', 'the body must be a form');
  const form = (body ?? {}) as Readonly<Record<string, string | readonly string[]>>;
  const repeated = Object.entries(form).find(([, value]) => typeof value !== 'string');
  if (repeated !== undefined) throw new OAuthError('invalid_request', 'a parameter is repeated');
  return (name) => (Object.hasOwn(form, name) ? String(form[name]) : undefined);
}

/** Returns a required parameter. @throws OAuthError if it is missing */
function required(parameters: Parameters, name: string): string {
  const value = parameters(name);
  if (value === undefined || value === '') throw new OAuthError('invalid_request', `${name} is missing`);
  return value;
}

/** Registers the metadata and the endpoints for clients. */
export async function oauthRoutes(
  app: FastifyInstance,
  services: OAuthServices,
  tokens: AccessTokens,
): Promise<void> {
  const { config, database, secrets } = services;
  const { redeem, refresh, revoke } = createConnections(signing(secrets, 'OAuth refresh tokens'));
  const perNetwork = attempts('OAuth tokens', { failures: 100, waiting: 100 });

  app.get(serverMetadataPath, async (request, reply) => {
    const issuer = requireIssuer(request);
    return sendUncached(reply, {
      issuer,
      authorization_endpoint: `${issuer}/oauth/authorize`,
      token_endpoint: `${issuer}/oauth/token`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      ...(hasRegistration(services) && { registration_endpoint: `${issuer}/oauth/register` }),
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: ['none'],
      revocation_endpoint_auth_methods_supported: ['none'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    });
  });

  app.get(resourceMetadataPath, async (request, reply) => {
    const issuer = requireIssuer(request);
    return sendUncached(reply, {
      resource: resourceOf(issuer),
      authorization_servers: [issuer],
      bearer_methods_supported: ['header'],
    });
  });

  // The consent page is part of the admin UI, because it needs the user's session and the protection of forms.
  app.get('/oauth/authorize', async (request, reply) => {
    requireIssuer(request);
    const query = normalQuery(request.url.split(/\?(.*)/s)[1] ?? '');
    return reply.header('cache-control', 'no-store').redirect(`/setup/connect?${query}`, 303);
  });

  /** Returns the connection for a request to the token endpoint, or undefined if its grant is not valid. */
  const connectionFor = (
    request: FastifyRequest,
    parameters: Parameters,
  ): Promise<Connection | undefined> => {
    const client = required(parameters, 'client_id');
    const base = { client, requestId: request.id, audited: config.audit };
    const type = required(parameters, 'grant_type');
    if (type === 'authorization_code') {
      const code = required(parameters, 'code');
      const verifier = required(parameters, 'code_verifier');
      const redirectUri = parameters('redirect_uri');
      return transaction(database, (tables) => redeem(tables, { ...base, code, verifier, redirectUri }));
    }
    if (type !== 'refresh_token')
      throw new OAuthError(
        'unsupported_grant_type',
        'grant_type must be authorization_code or refresh_token',
      );
    const refreshToken = required(parameters, 'refresh_token');
    return transaction(database, (tables) => refresh(tables, { ...base, refreshToken }));
  };

  await app.register(async (scope) => {
    await scope.register(formbody, { bodyLimit });
    scope.setErrorHandler((error, request, reply) => sendOAuthError(error, request, reply));

    scope.post('/oauth/token', { bodyLimit }, async (request, reply) => {
      const issuer = requireIssuer(request);
      const parameters = parametersOf(request);
      if (!isResource(parameters('resource'), issuer))
        throw new OAuthError('invalid_target', `resource must be ${resourceOf(issuer)}`);
      const connection = await perNetwork.run(networkOf(request), () => connectionFor(request, parameters));
      if (connection === undefined)
        throw new OAuthError('invalid_grant', 'the grant is not valid, has expired or has been revoked');
      const remaining = Math.floor((connection.expiresAt.getTime() - Date.now()) / 1000);
      const seconds = Math.max(1, Math.min(accessTokenSeconds, remaining));
      return sendUncached(reply, {
        access_token: await tokens.sign(issuer, connection, seconds),
        token_type: 'Bearer',
        expires_in: seconds,
        refresh_token: connection.refreshToken,
      });
    });

    scope.post('/oauth/revoke', { bodyLimit }, async (request, reply) => {
      const issuer = requireIssuer(request);
      const parameters = parametersOf(request);
      const [token, client] = [required(parameters, 'token'), required(parameters, 'client_id')];
      const base = { client, requestId: request.id, audited: config.audit };
      const claims = await tokens.verify(issuer, token);
      await transaction(database, (tables) => revoke(tables, { ...base, token, claims }));
      return sendUncached(reply, {});
    });

    registrationRoute(scope, services);
  });

  rejectOtherMethods(app, '/oauth/authorize', ['GET', 'HEAD']);
  for (const url of ['/oauth/token', '/oauth/revoke', '/oauth/register'])
    rejectOtherMethods(app, url, ['POST']);
  for (const path of [serverMetadataPath, resourceMetadataPath])
    rejectOtherMethods(app, path, ['GET', 'HEAD']);
}
