import { UserError } from '../../../engine/errors.ts';
import { administratorProfile } from '../../../engine/records/index.ts';
import { findRow, listRows, type Tables } from '../../../engine/tables/index.ts';
import { type Form, field, type Input, idField } from '../../admin-ui/shell/index.ts';
import { missingProfile, profileRows } from './profiles.ts';

/**
 * Returns the input that selects a profile. No profile is preselected, so that administrators choose deliberately. The
 * administrator profile is last.
 */
export const profileChoice = async (
  { tables, organization }: { readonly tables: Tables; readonly organization: string },
  selectedId: string,
  help: string,
): Promise<Input> => ({
  kind: 'choice',
  name: 'profile',
  label: 'Profile',
  required: true,
  help,
  options: [
    { value: '', label: 'Choose a profile' },
    ...(await listRows(tables, profileRows, organization))
      .sort((a, b) => Number(a.name === administratorProfile) - Number(b.name === administratorProfile))
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
  if ((await findRow(tables, profileRows, organization, id)) === undefined)
    throw new UserError(missingProfile);
  return id;
}
