import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { AddressPolicy } from '../../../engine/addresses.ts';
import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { AuditConfig } from '../../../engine/effects/index.ts';
import { errors } from '../../../engine/errors.ts';
import { isLoopback } from '../../../engine/loopback.ts';
import type { KeyConfig } from '../api-keys/index.ts';
import type { InstanceSecrets } from '../secrets/index.ts';

/** The `mcp` setting in config.yaml. An object enables OAuth, too. */
export type ConnectorSettings =
  | boolean
  | {
      /** Whether clients without a client ID metadata document can register themselves. */
      readonly registration?: boolean;
      /** Maximum number of records that a key can read and write with tools per day (UTC). 0 means unlimited. */
      readonly limits?: { readonly read?: number; readonly write?: number };
    };

/** Path of the MCP endpoint, and of its metadata (RFC 9728). */
export const [mcpPath, resourceMetadataPath] = ['/mcp', '/.well-known/oauth-protected-resource/mcp'];

/** Returns whether the MCP endpoint and OAuth are enabled. */
export const isMcpEnabled = ({
  settings,
}: {
  readonly settings: { readonly current: { readonly mcp: ConnectorSettings } };
}): boolean => settings.current.mcp !== false;

/** Services required for OAuth. */
export interface OAuthServices {
  readonly config: AuditConfig & KeyConfig & { readonly host: string };
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly publicUrl: () => string;
  readonly settings: {
    readonly current: { readonly mcp: ConnectorSettings; readonly events: AddressPolicy };
  };
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the origin that issues tokens and accepts them, or undefined if OAuth is disabled. */
    oauthIssuer: (request: FastifyRequest) => string | undefined;
  }
}

/**
 * Adds {@link FastifyInstance.oauthIssuer}. Without `public_url`, only instances that listen on loopback have an issuer,
 * because callers determine the Host header.
 */
export function addIssuer(app: FastifyInstance, services: OAuthServices): void {
  const { config, publicUrl } = services;
  app.decorate('oauthIssuer', (request) => {
    if (!isMcpEnabled(services)) return undefined;
    const origin = app.site.origin(request);
    if (!URL.canParse(origin)) return undefined;
    const { protocol, hostname } = new URL(origin);
    if (URL.canParse(publicUrl())) return protocol === 'https:' || isLoopback(hostname) ? origin : undefined;
    return isLoopback(config.host) && isLoopback(hostname) ? origin : undefined;
  });
}

/** Returns whether clients can register themselves. */
export const hasRegistration = ({ settings }: Pick<OAuthServices, 'settings'>): boolean => {
  const { mcp } = settings.current;
  return typeof mcp === 'object' && mcp.registration === true;
};

/** Returns the issuer. @throws HttpError 404 if OAuth is disabled */
export function requireIssuer(request: FastifyRequest): string {
  const issuer = request.server.oauthIssuer(request);
  if (issuer === undefined) throw errors.notFound();
  return issuer;
}

/** Returns the URL of the MCP endpoint, which is the protected resource. */
export const resourceOf = (issuer: string): string => `${issuer}${mcpPath}`;

/** Returns the URL of the metadata of the MCP endpoint (RFC 9728). */
export const resourceMetadataUrl = (issuer: string): string => `${issuer}${resourceMetadataPath}`;
