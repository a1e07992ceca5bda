// Ledger: how long changes are kept, and the feed of changes.
// May import engine.

export { keepEpoch, renewEpoch } from './epoch.ts';
export { assertKept, feedEnd, nowSql } from './feed.ts';
export { ledgerModule } from './module.ts';
export { cursors, type GivenPlace } from './place.ts';
export { feedSigning } from './signing.ts';
