// screens:
// May import

export { screensModule } from './module.ts';
export {
  addDoneTexts,
  administrated,
  type Form,
  field,
  fields,
  idField,
  personOf,
  redirectGetToForm,
  render,
  type Shown,
  safeNext,
  section,
  signedIn,
  viewsIn,
} from './page.ts';
