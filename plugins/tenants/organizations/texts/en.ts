import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for organizations. */
export default {
  // List
  organizations: 'Organizations',
  rows: 'organizations',
  name: 'Name',
  slug: 'Slug',
  yourProfile: 'Your profile',
  none: 'You are not a member of any organization.',
  rename: 'Rename',
  renameName: 'Rename {name}',
  phoneNumbers: 'Phone numbers',
  phoneNumbersName: 'Phone numbers {name}',
  export: 'Export',
  exportName: 'Export {name}',
  delete: 'Delete',
  deleteName: 'Delete {name}',
  newOrganization: 'New organization',
  // Messages after an action
  created: '{} created. You are its administrator.',
  saved: '{} updated.',
  phoneRegionSaved: 'Phone numbers of {} updated.',
  deleted: '{} and all its data deleted.',
  // Pages
  newIntro: 'The organization starts empty, with you as its administrator.',
  slugHelp: 'Used in URLs. Lowercase letters, digits and hyphens.',
  create: 'Create organization',
  changedSlugHelp:
    'Used in URLs and in ?org=. The old slug keeps working and stays reserved for this organization.',
  save: 'Save organization',
  deleteOrganization: 'Delete organization',
  phoneNumbersOf: 'Phone numbers of {name}',
  phoneIntro:
    'Filters and searches find a phone number with and without its country code if the country of numbers without one is known.',
  country: 'Country',
  countryHelp: 'ISO 3166 code, for example DE. If empty, phone numbers are compared only by their digits.',
  saveCountry: 'Save country',
  deleteQuestion: 'Delete {name}?',
  deleteIntro:
    'If you might need its data again, export the organization first. The export link is in the organization list.',
  deleteConsequence:
    'Permanently deletes all records, members, keys, integrations and history, and all users with unverified email addresses. Keys stop working immediately.',
  typeSlug: 'Type “{slug}”',
  // Errors
  cannotCreate: 'You cannot create organizations on this instance.',
  typeSlugToConfirm: 'type “{slug}” to confirm the deletion',
  invalidSlug:
    '"{slug}" is not a valid slug. Use up to 63 lowercase letters, digits and hyphens, without a hyphen at either end.',
  slugReserved: 'the slug "{slug}" is reserved. Choose another one.',
  slugTaken: 'the organization "{slug}" already exists',
  slugInConfig:
    'the slug "{slug}" cannot be changed: config.yaml names it in {setting}. Change config.yaml first.',
  invalidCountry: '"{code}" is not the ISO 3166 code of a country with phone numbers. Use a code such as DE.',
  stillWritten: 'the organization is still being written to. Try again.',
} as const satisfies Catalogue;
