import { maxItems } from '../../../engine/records/index.ts';
import { type Form, fields } from '../shell/index.ts';
import { isRecordId } from './values.ts';

/** Returns the IDs of the records that were selected in a list. */
export const selectedIds = (form: Form): readonly string[] =>
  [...new Set(fields(form, 'id'))].filter(isRecordId).slice(0, maxItems);
