// Ledger: how long changes are kept, and the feed of changes.
// May import engine.

export { ensureEpoch, renewEpoch } from './epoch.ts';
export { assertKept, feedEnd, nowSql } from './feed.ts';
export { changeLogModule } from './module.ts';
export { feedCursors, type UnverifiedPosition } from './position.ts';
export { feedSigning } from './signing.ts';
