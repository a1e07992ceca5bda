// Records: pages for records, generated from the resource definitions.
// May import engine, secrets, identity, jobs, admin-ui/shell.

import type { Resource } from '../../../engine/compile/index.ts';
import type { Database } from '../../../engine/database/index.ts';
import type { Module } from '../../../engine/modules/index.ts';
import { formerUsers } from './former-users.ts';
import { addImportJobs } from './import-job.ts';
import { type DataServices, dataPages } from './pages.ts';

interface CheckServices {
  readonly database: Database;
  readonly resources: readonly Resource[];
}

export { writable } from './inputs.ts';
export { columnsOf } from './list-page.ts';
export {
  type Previews,
  type ProposedWrite,
  preparePreviews,
  type WritePreview,
} from './proposed-writes.ts';
export { viewAsCookie } from './see-as.ts';
export {
  type KeptChange,
  maxUndoneChanges,
  prepareUndo,
  type RecordChange,
  type UndoChanges,
} from './undo-changes.ts';
export { resourceNoun, resourceWords, type Titles, titlesOf } from './values.ts';

/** Pages for an organization's records: lists, records, forms and CSV, which is imported by jobs. */
export const recordPagesModule: Module<DataServices, unknown, CheckServices> = {
  name: 'records',
  register: addImportJobs,
  pages: dataPages,
  checks: [formerUsers],
};
