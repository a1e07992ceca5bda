// Screens: the shell of the setup screens: modules add their pages.
// May import engine, secrets, identity.

export {
  administrates,
  adminOf,
  type Member,
  memberOf,
  membershipsOf,
  personOf,
  signedIn,
} from './access.ts';
export { type Form, field, fields, idField, safeNext, typedTimestamp } from './form.ts';
export { addRecords } from './frame.ts';
export { exactTime } from './helpers.ts';
export { addHomeCheck, type HomeCheck } from './home.ts';
export { addedFilter, kept, linkWith, listing, parametersOf, rowsPerPage } from './listing.ts';
export { screensModule } from './module.ts';
export { addDoneTexts, placeText, redirectDone, render, type Shown, type Subject, show } from './render.ts';
export { type Asked, redirectGetToForm, type Sender, section } from './section.ts';
export { claimForm } from './sent-forms.ts';
export * from './views.ts';
