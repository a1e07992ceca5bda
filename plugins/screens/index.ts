// Screens: the shell of the setup screens: modules add their pages.
// May import engine, secrets, identity.

export { type Form, field, fields, idField, safeNext } from './form.ts';
export { screensModule } from './module.ts';
export {
  addDoneTexts,
  administrated,
  personOf,
  redirectGetToForm,
  render,
  type Shown,
  section,
  signedIn,
  viewsIn,
} from './page.ts';
