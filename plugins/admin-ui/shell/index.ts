// The shell of the admin UI: layout, navigation and page types. Other modules add their pages.
// May import engine, secrets, identity.

import type { Module } from '../../../engine/modules/index.ts';
import { type AdminUiServices, adminUi } from './admin-ui.ts';
import { adminUiTables } from './tables.ts';

export {
  adminOf,
  type CurrentMember,
  isAdministrator,
  memberOf,
  membershipsOf,
  personOf,
  signedIn,
} from './access.ts';
export { addObjects, sectionList, userList } from './add-objects.ts';
export { defineObject, objectList } from './admin-object.ts';
export { readAssets } from './assets.ts';
export {
  type Catalogue,
  defineTexts,
  joinTexts,
  type Language,
  languages,
  ownWords,
  plainText,
  type Text,
  type TextIn,
  type TranslationOf,
  textIn,
} from './catalogue.ts';
export { apiMessageIn, messageIn } from './errors/error-message.ts';
export { issueMessageIn } from './errors/issue-message.ts';
export { type FilterField, filterMenu } from './filter.ts';
export { claimForm, type Form, field, fields, idField, safeNext } from './form.ts';
export { addRecords, listedSections } from './frame.ts';
export { addHomeCheck, addHomeParts, addHomeStep } from './home.ts';
export { hueAt, type IconName, iconNames } from './icon.ts';
export {
  type AddedFilter,
  addedFilter,
  filterLink,
  hiddenParameters,
  linkWithParameters,
  parametersOf,
  rangeText,
  rowsPerPage,
} from './listing.ts';
export { languageOf, localeOf } from './locale.ts';
export type {
  ListContext,
  ListDefinition,
  ObjectContext,
  ObjectDefinition,
  ObjectServices,
} from './object.ts';
export { recentMemberships, rememberOrganization } from './recent.ts';
export {
  addDoneTexts,
  type DoneMessage,
  factsPerCard,
  listData,
  redirectDone,
  render,
  returnQuery,
  show,
  type ViewData,
} from './render.ts';
export { redirectGetToForm, section } from './section.ts';
export { exactTime, registerPages } from './templates.ts';
export {
  addTimelineSource,
  inPeriod,
  microseconds,
  type TimelineEntry,
  type TimelinePeriod,
  type TimelineRecord,
  type TimelineRequest,
  type TimelineSource,
} from './timeline.ts';
export { ForbiddenError, TranslatedError } from './translated-error.ts';
export * from './views.ts';
export { sendWholeValue, wholeValueLink } from './whole-value.ts';

/** The shell of the admin UI, to which other modules add their pages. */
export const adminUiModule: Module<AdminUiServices> = {
  name: 'shell',
  tables: adminUiTables,
  register: adminUi,
};
