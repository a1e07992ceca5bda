import type { FastifyRequest } from 'fastify';
import { errors } from '../engine/errors.ts';
import { commandCaller, type OrganizationRecords, organizationRecords } from '../engine/records/index.ts';
import { tablesOf } from '../engine/tables/index.ts';
import { userPrincipal } from '../plugins/access/identity/index.ts';
import type { CurrentMember } from '../plugins/admin-ui/shell/index.ts';
import type { Instance } from './services.ts';

/** An organization of an instance. */
export interface OrganizationEntry {
  readonly id: bigint;
  readonly slug: string;
  readonly name: string;
}

/** Access to records for the routes, pages, commands and background work of a module. */
export interface RecordAccess {
  /**
   * Returns access with the grants of a request's caller.
   * @param caller a request to a route with `authorize`, or the member who requests a page
   * @throws HttpError 401 if the request has no caller
   */
  readonly of: (
    caller: Pick<FastifyRequest, 'principal' | 'id'> | Pick<CurrentMember, 'person' | 'membership' | 'actor'>,
  ) => OrganizationRecords;
  /**
   * Returns access to an organization's records without limits, also to fields that callers cannot write. The change log names the
   * module and the reason.
   * @param organization ID of the organization
   * @param reason why the module changes records, in a few words
   */
  readonly asSystem: (organization: bigint | string, reason: string) => OrganizationRecords;
  /** Returns all organizations of the instance, in the order of their creation. */
  readonly organizations: () => Promise<readonly OrganizationEntry[]>;
}

/** Returns access to an instance's records for a module. */
export function recordAccess(
  { database, resources }: Pick<Instance, 'database' | 'resources'>,
  module: string,
): RecordAccess {
  const target = { database, resources, module };
  return {
    of: (caller) => {
      if ('membership' in caller) {
        const { person, membership, actor } = caller;
        const principal = userPrincipal(person.session.user, membership);
        return organizationRecords({ ...target, caller: { principal, requestId: actor.requestId ?? '' } });
      }
      const { principal, id } = caller;
      if (principal === null) throw errors.unauthenticated();
      return organizationRecords({ ...target, caller: { principal, requestId: id } });
    },
    asSystem: (organization, reason) =>
      organizationRecords({ ...target, caller: commandCaller(String(organization)), reason }),
    organizations: async () => {
      const rows = await tablesOf(database)
        .selectFrom('crm_organizations')
        .select(['id', 'slug', 'name'])
        .orderBy('id')
        .execute();
      return rows.map(({ id, slug, name }) => ({ id: BigInt(id), slug, name }));
    },
  };
}
