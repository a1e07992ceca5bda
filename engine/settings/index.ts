// Settings: config.yaml, what an administrator changes while the instance runs; followed, and swapped as one value.
// May import errors, config, yaml.
export { type LiveSettings, liveSettings } from './live.ts';
export { type ExpressionCheck, parseSettings, readSettings } from './load.ts';
export { defaults, type Payment, type Scheme, type SenderSettings, type Settings } from './settings.ts';
