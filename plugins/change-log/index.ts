// Change log: retention and the change feed.
// May import engine.

export { ensureEpoch, renewEpoch } from './epoch.ts';
export { assertRetained, feedEnd, nowSql } from './feed.ts';
export { changeLogModule } from './module.ts';
export { feedCursors, feedSigning, type UnverifiedPosition } from './position.ts';
