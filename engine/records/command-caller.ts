import type { Actor } from '../effects/index.ts';
import { grantMasks, wildcard } from './access.ts';
import type { Caller } from './operation.ts';

const everyGrant = grantMasks([{ object: wildcard, action: wildcard }]);

/**
 * Returns a caller with every grant in an organization.
 * @param author the author of its changes; the command line by default
 */
export const commandCaller = (
  organization: string,
  { kind, id, name, requestId }: Omit<Actor, 'audited'> = commandAuthor,
): Caller => ({
  principal: { kind, actor: id, name, organization, user: null, grants: everyGrant },
  requestId: requestId ?? '',
});

const commandAuthor = { kind: 'command', id: null, name: null, requestId: null } as const;
