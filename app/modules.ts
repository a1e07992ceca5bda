import type { Resource } from '../engine/compile/index.ts';
import type { FieldRequirements } from '../engine/definition/index.ts';
import { isServed } from '../engine/modules/index.ts';
import { apiKeysModule } from '../plugins/access/api-keys/index.ts';
import { identityModule } from '../plugins/access/identity/index.ts';
import { loginModule } from '../plugins/access/login/index.ts';
import { membersModule } from '../plugins/access/members/index.ts';
import { oauthModule } from '../plugins/access/oauth/index.ts';
import { openIdConnectModule } from '../plugins/access/openid-connect/index.ts';
import { profilesModule } from '../plugins/access/profiles/index.ts';
import { rateLimitingModule } from '../plugins/access/rate-limiting/index.ts';
import { secondFactorModule } from '../plugins/access/second-factor/index.ts';
import { secretsModule } from '../plugins/access/secrets/index.ts';
import { teamsModule } from '../plugins/access/teams/index.ts';
import { usersModule } from '../plugins/access/users/index.ts';
import { activityModule } from '../plugins/admin-ui/activity/index.ts';
import { recordPagesModule } from '../plugins/admin-ui/records/index.ts';
import { savedViewsModule } from '../plugins/admin-ui/saved-views/index.ts';
import { adminUiModule } from '../plugins/admin-ui/shell/index.ts';
import { explorerModule } from '../plugins/api/explorer/index.ts';
import { idempotency } from '../plugins/api/idempotency/index.ts';
import { mcpModule } from '../plugins/api/mcp/index.ts';
import { usageModule } from '../plugins/api/usage/index.ts';
import { changeLogModule } from '../plugins/change-log/index.ts';
import { hooksModule } from '../plugins/hooks/index.ts';
import { jobsModule } from '../plugins/jobs/index.ts';
import { backupModule } from '../plugins/operations/backup/index.ts';
import { demoModule } from '../plugins/operations/demo/index.ts';
import { doctorModule } from '../plugins/operations/doctor/index.ts';
import { mailModule } from '../plugins/operations/mail/index.ts';
import { operationsModule } from '../plugins/operations/monitoring/index.ts';
import { tracingModule } from '../plugins/operations/tracing/index.ts';
import { customFieldsModule } from '../plugins/tenants/custom-fields/index.ts';
import { erasureModule } from '../plugins/tenants/erasure/index.ts';
import { merges } from '../plugins/tenants/merges/index.ts';
import { organizationsModule } from '../plugins/tenants/organizations/index.ts';
import { quotasModule } from '../plugins/tenants/quotas/index.ts';
import { trashModule } from '../plugins/tenants/trash/index.ts';
import { webhookModules } from '../webhooks/index.ts';
import type { InstanceModule, ModuleList } from './services.ts';

/**
 * The engine's own modules, in the order in which they are registered and appear in the navigation and the help. The modules
 * in config.yaml follow them, see `Config.modules`.
 */
export const modules: readonly InstanceModule[] = [
  // Must be first, because it measures the routes of all other modules.
  operationsModule,
  tracingModule,
  doctorModule,
  secretsModule,
  mailModule,
  organizationsModule,
  idempotency,
  identityModule,
  usersModule,
  quotasModule,
  apiKeysModule,
  usageModule,
  rateLimitingModule,
  secondFactorModule,
  loginModule,
  openIdConnectModule,
  oauthModule,
  membersModule,
  profilesModule,
  teamsModule,
  customFieldsModule,
  ...webhookModules,
  changeLogModule,
  hooksModule,
  jobsModule,
  activityModule,
  erasureModule,
  trashModule,
  merges,
  backupModule,
  savedViewsModule,
  recordPagesModule,
  adminUiModule,
  explorerModule,
  mcpModule,
  demoModule,
];

/** Returns the modules that an instance serves. @param resources all resources, including retired ones */
export function servedModules(
  { modules: all }: ModuleList,
  resources: readonly Resource[],
): readonly InstanceModule[] {
  const retired = resources.filter(({ definition }) => definition.isRetired);
  return all.filter((module) => isServed(module, retired));
}

/** Returns the fields that served modules access by name. @param resources all resources, including retired ones */
export const neededFields = (
  list: ModuleList,
  resources: readonly Resource[],
): readonly FieldRequirements[] => {
  const retired = resources.filter(({ definition }) => definition.isRetired).map(({ name }) => name);
  return servedModules(list, resources)
    .flatMap(({ needs = [] }) => needs)
    .filter(({ resource }) => !retired.includes(resource));
};

/**
 * Returns the retired resource because of which a module is not served, or undefined if the module is served.
 * @param module the module's name
 */
export function retiredNeed(
  { modules: all }: ModuleList,
  resources: readonly Resource[],
  module: string,
): string | undefined {
  const needed = all.find(({ name, isDivisible }) => name === module && isDivisible !== true)?.needs ?? [];
  return resources.find(
    ({ name, definition }) => definition.isRetired && needed.some(({ resource }) => resource === name),
  )?.name;
}
