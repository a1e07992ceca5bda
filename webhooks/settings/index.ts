// Settings: reads, validates and watches config.yaml.
// May import engine, plugins.

export { settingsEditorSchema } from './editor.ts';
export { withoutTextConversion } from './expressions.ts';
export { type LiveSettings, liveSettings } from './live.ts';
export {
  assertSectionSchema,
  type ModuleEntry,
  ownSenders,
  readModuleEntries,
  readSettings,
  readSettingsFile,
  type SettingsConfig,
  type SettingsFile,
  sectionOf,
  settingNames,
  settingsVariables,
  variableReferences,
} from './load.ts';
export {
  defaults,
  type Payment,
  type Scheme,
  type SenderSettings,
  type Settings,
  withoutSlash,
} from './settings.ts';
export {
  assertServed,
  configuredSlugs,
  disabledEndpoints,
  type Leaf,
  leaves,
  type RetiredNeedOf,
  unknownOrganizations,
  unsetVariables,
} from './warnings.ts';
