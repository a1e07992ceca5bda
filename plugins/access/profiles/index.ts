// Profiles: named sets of grants.
// May import engine, admin-ui/shell.

export { chosenProfile, profileChoice } from './choice.ts';
export { profilesModule } from './module.ts';
export { builtInProfiles, createProfile, profileId, profileRows } from './profiles.ts';
