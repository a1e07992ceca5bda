import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { type Form, field, type Input, idField } from '../../admin-ui/shell/index.ts';
import { listProfiles, type Profile } from './profiles.ts';

/**
 * Returns the input that selects a profile. No profile is preselected, so that administrators choose deliberately. The
 * administrator profile is last.
 */
export const profileChoice = (profiles: readonly Profile[], selectedId: string, help: string): Input => ({
  kind: 'choice',
  name: 'profile',
  label: 'Profile',
  required: true,
  help,
  options: [
    { value: '', label: 'Choose a profile' },
    ...profiles
      .toSorted((a, b) => Number(a.name === administratorProfile) - Number(b.name === administratorProfile))
      .map(({ id, name }) => ({ value: id, label: name, selected: id === selectedId })),
  ],
});

/**
 * Returns the ID of the profile selected in a form.
 * @throws UserError if none is selected, or it is not a profile of the organization
 */
export async function chosenProfile(tables: Tables, organization: string, form: Form): Promise<string> {
  if (field(form, 'profile') === '') throw new UserError('choose a profile');
  const id = idField(form, 'profile');
  const profiles = await listProfiles(tables, organization);
  if (!profiles.some((profile) => profile.id === id)) throw new UserError('this profile does not exist');
  return id;
}
