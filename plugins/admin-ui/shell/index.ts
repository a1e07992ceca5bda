// The shell of the admin UI: layout, navigation and page types. Other modules add their pages.
// May import engine, secrets, identity.

export {
  adminOf,
  type CurrentMember,
  isAdministrator,
  memberOf,
  membershipsOf,
  personOf,
  signedIn,
} from './access.ts';
export { type Form, field, fields, idField, safeNext } from './form.ts';
export { addRecords } from './frame.ts';
export { exactTime } from './helpers.ts';
export { addHomeCheck, type HomeCheck } from './home.ts';
export {
  filterLink,
  hiddenParameters,
  linkWithParameters,
  listing,
  parametersOf,
  rowsPerPage,
} from './listing.ts';
export { adminUiModule } from './module.ts';
export {
  addDoneTexts,
  redirectDone,
  render,
  returnQuery,
  type Subject,
  show,
  type ViewData,
} from './render.ts';
export { type PageInput, redirectGetToForm, type SubmittedForm, section } from './section.ts';
export { claimForm } from './sent-forms.ts';
export * from './views.ts';
