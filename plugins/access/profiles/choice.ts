import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import type { Tables } from '../../../engine/tables/index.ts';
import { type Form, field, type Input, idField } from '../../admin-ui/shell/index.ts';
import { listProfiles, type Profile } from './profiles.ts';

/** Returns the input for a profile. None is preselected, so that administrators grant deliberately; the one with all grants is last. */
export const profileChoice = (profiles: readonly Profile[], chosen: string, help: string): Input => ({
  kind: 'choice',
  name: 'profile',
  label: 'Profile',
  required: true,
  help,
  options: [
    { value: '', label: 'Choose a profile' },
    ...profiles
      .toSorted((a, b) => Number(a.name === administratorProfile) - Number(b.name === administratorProfile))
      .map(({ id, name }) => ({ value: id, label: name, selected: id === chosen })),
  ],
});

/** The profile that a form chose. @throws UserError if it is none of the organization's */
export async function chosenProfile(tables: Tables, organization: string, form: Form): Promise<string> {
  if (field(form, 'profile') === '') throw new UserError('choose a profile');
  const id = idField(form, 'profile');
  const known = await listProfiles(tables, organization);
  if (!known.some((each) => each.id === id)) throw new UserError('this profile does not exist');
  return id;
}
