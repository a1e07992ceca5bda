// Profiles: named sets of grants.
// May import engine, admin-ui/shell.

export { profilesModule } from './module.ts';
export {
  builtInProfiles,
  chosenProfile,
  createProfile,
  profileChoice,
  profileId,
  profileRows,
} from './profiles.ts';
