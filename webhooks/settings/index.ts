// Settings: config.yaml: checked, followed while the instance runs.
// May import engine, plugins.

export { settingsEditorSchema } from './editor.ts';
export { withoutTexts } from './expressions.ts';
export { type Leaf, leaves } from './leaves.ts';
export { type LiveSettings, liveSettings } from './live.ts';
export {
  readSettings,
  readSettingsFile,
  referencesIn,
  type SettingsConfig,
  type SettingsFile,
  settingsVariables,
} from './load.ts';
export { configuredSlugs, endpointsOff, unknownOrganizations, unsetVariables } from './notes.ts';
export {
  defaults,
  type Payment,
  type Scheme,
  type SenderSettings,
  type Settings,
  withoutSlash,
} from './settings.ts';
