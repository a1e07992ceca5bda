// Settings: config.yaml, what an administrator changes while the instance runs; followed, and swapped as one value.
// May import the engine's errors, config and yaml, and the expressions beside it.

export { withoutTexts } from './expressions.ts';
export { type LiveSettings, liveSettings } from './live.ts';
export { readSettings, type SettingsConfig, settingsVariables } from './load.ts';
export { type Payment, type Scheme, type SenderSettings, type Settings, withoutSlash } from './settings.ts';
