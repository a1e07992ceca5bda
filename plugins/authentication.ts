import type { FastifyInstance } from 'fastify';
import fastifyPlugin from 'fastify-plugin';
import { LRUCache } from 'lru-cache';
import type { Config } from '../engine/config.ts';
import { type Database, databaseFailure } from '../engine/database/index.ts';
import { errors } from '../engine/errors.ts';
import {
  findKey,
  matches,
  noteKeysUsed,
  platform,
  publicIdOf,
  type StoredKey,
} from '../engine/platform/index.ts';
import type { Principal } from '../engine/request/index.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Who sent the request. The answer is there at once where the key was looked up within the last moment.
     * @throws HttpError 401, the same for every reason; 500 when the database does not answer
     */
    authenticate: (request: FastifyRequest) => Principal | Promise<Principal>;
  }
}

/** How long a look-up may be used. Well under the second after which a revoked key may not work any more. */
const freshMs = 700;
/** How often "last used" is written. */
const noteEveryMs = 30_000;
const bearer = /^Bearer +([^ ]+) *$/i;

/** Organization API keys (contract section 5). */
export const authentication = fastifyPlugin(
  async (app: FastifyInstance, { config, database }: { config: Config; database: Database }) => {
    // Looked up at most once for each key and moment, however many requests come; bounded.
    const known = new LRUCache<string, { readonly key: StoredKey | undefined }>({
      max: 10_000,
      ttl: freshMs,
    });
    const pending = new Map<string, Promise<StoredKey | undefined>>();
    const used = new Map<string, { organization: string; at: Date }>();

    const lookUp = (publicId: string): Promise<StoredKey | undefined> => {
      const running = pending.get(publicId);
      if (running !== undefined) return running;
      // The look-up counts from when it was asked, not from when it was answered.
      const start = performance.now();
      const found = findKey(platform(database), publicId)
        .catch((cause) => {
          throw databaseFailure(cause);
        })
        .then((key) => {
          known.set(publicId, { key }, { start });
          return key;
        })
        .finally(() => pending.delete(publicId));
      pending.set(publicId, found);
      return found;
    };

    const accept = (token: string, key: StoredKey | undefined): Principal => {
      if (key === undefined || !matches(token, key.hash)) throw errors.unauthenticated();
      const now = Date.now();
      if (key.expiresAt <= now) throw errors.unauthenticated();
      const noted = used.get(key.id);
      if (noted === undefined) used.set(key.id, { organization: key.organization, at: new Date(now) });
      else noted.at.setTime(now);
      return key.principal;
    };

    const noteUsed = async (): Promise<void> => {
      if (used.size === 0) return;
      const batch = new Map(used);
      used.clear();
      await noteKeysUsed(platform(database), batch).catch((cause) =>
        app.log.warn({ code: cause?.code }, 'could not note when keys were last used'),
      );
    };
    const timer = setInterval(noteUsed, noteEveryMs).unref();
    app.addHook('onClose', async () => {
      clearInterval(timer);
      await noteUsed();
    });

    app.decorate('authenticate', (request) => {
      const token = bearer.exec(request.headers.authorization ?? '')?.[1];
      const publicId = token === undefined ? undefined : publicIdOf(config.keyPrefix, token);
      if (token === undefined || publicId === undefined) throw errors.unauthenticated();
      const recent = known.get(publicId);
      return recent === undefined
        ? lookUp(publicId).then((key) => accept(token, key))
        : accept(token, recent.key);
    });
  },
  { name: 'authentication', fastify: '5.x', dependencies: ['errors'] },
);
