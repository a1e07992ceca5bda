import type { Field } from '../../../engine/fields/index.ts';
import type { ValueForm } from '../shell/index.ts';
import type { readStored } from './form-state.ts';
import { type FormState, formInputs, writable } from './inputs.ts';
import { sameList } from './neighbors.ts';
import type { DataRequest } from './routes.ts';

/** Returns the field with this name if the member can edit its value on the record's page. */
export const editedField = ({ resource, calls }: DataRequest, name: string): Field | undefined =>
  calls.allows(resource, 'update') ? writable(resource).find((field) => field.name === name) : undefined;

/** Returns the form that edits one of a record's values in place. */
export function valueForm(
  { request, resource, path, t }: DataRequest,
  {
    only,
    stored,
    state,
    tag,
  }: {
    /** The field's name. */
    readonly only: string;
    readonly stored: Awaited<ReturnType<typeof readStored>>;
    readonly state: FormState;
    readonly tag: string;
  },
): ValueForm {
  const { id } = request.params as { id: string };
  const input = formInputs(resource, { ...state, stored: stored.record }, t).find(
    ({ name }) => name === only,
  );
  if (input === undefined) throw new Error(`${resource.name} has no writable field ${only}`);
  return {
    action: `${path}/${id}/edit${sameList({ request })}`,
    hidden: [
      { name: 'field', value: only },
      { name: 'tag', value: tag },
    ],
    input: { ...input, focus: true },
    cancel: `${path}/${id}${sameList({ request })}`,
  };
}
