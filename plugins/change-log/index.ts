// Change log: retention and the change feed.
// May import engine.

import type { Resource } from '../../engine/compile/index.ts';
import type { Database } from '../../engine/database/index.ts';
import type { AuditConfig } from '../../engine/effects/index.ts';
import { type Module, startRetention } from '../../engine/modules/index.ts';
import type { InstanceSecrets } from '../access/secrets/index.ts';
import { feedCheck } from './check.ts';
import { feedFragment } from './description.ts';
import { feed } from './events.ts';
import { feedMetrics, watchFeed } from './lag.ts';
import { feedSigning } from './position.ts';
import { changeLogRetention } from './retention.ts';

export { ensureEpoch, renewEpoch } from './epoch.ts';
export { assertRetained, type FeedPage, feedEnd, feedReader, nowSql } from './feed.ts';
export { feedCursors, feedSigning, type UnverifiedPosition } from './position.ts';

/** Services used by the change log. */
interface ChangeLogServices {
  readonly config: AuditConfig;
  readonly database: Database;
  readonly resources: readonly Resource[];
  readonly secrets: InstanceSecrets;
  readonly settings: { readonly current: { readonly retention: { readonly ledger_days: number } } };
}

/** The change log's retention, feed and metrics. Its rows are written by an effect that runs with each write. */
export const changeLogModule: Module<
  ChangeLogServices,
  unknown,
  Pick<ChangeLogServices, 'config' | 'database'>
> = {
  name: 'change-log',
  openApi: feedFragment,
  metrics: ({ database }) => [feedMetrics(database)],
  register: (app, { config, database, resources, secrets, settings }) => {
    startRetention(app, database, {
      label: 'old changes',
      steps: [(tables) => changeLogRetention(tables, settings.current.retention.ledger_days)],
    });
    watchFeed(app, database, config.audit);
    feed(app, { config, database, resources, signing: feedSigning(secrets) });
  },
  checks: [feedCheck],
};
