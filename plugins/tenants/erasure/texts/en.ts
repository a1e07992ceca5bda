import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages that erase a person. */
export default {
  erasePerson: 'Erase a person',
  // List
  rows: 'erasures by administrator',
  when: 'When',
  by: 'By',
  commandLine: 'command line',
  none: 'No erasures yet.',
  // Form
  formIntro: 'The next page shows the data found about the person before anything is erased.',
  records: 'The person’s records',
  recordsHelp: 'One resource and filter per line',
  recordsExample: 'One resource and filter per line, for example {example}',
  searchTerms: 'Search terms unique to this person',
  searchTermsHelp:
    'One email address, phone number or name per line. The search finds them in data received from partners.',
  findData: 'Find data',
  nothingFound: 'no data about this person was found',
  // Confirmation
  question: 'Erase this person?',
  consequence:
    'Permanently erases the person’s records, their entries in the change log, and everything received or sent that contains these search terms.',
  consequenceOf:
    'Permanently erases the person’s records, their entries in the change log, and everything received or sent that contains {terms}.',
  backups: 'Backups keep the data until they are deleted.',
  unchanged: 'These records mention the person and are left unchanged: {mentions}.',
  recordId: 'record {id}',
  recordIds: 'records {ids}',
  changes: 'changes in the change log',
  sentEvents: 'requests and responses of sent events',
  hookErrors: 'errors of hooks',
  proposals: 'proposals of agents',
  storedResponses: 'stored responses',
  integrationEvents: 'integration events',
  jobs: 'jobs',
  merges: 'merges',
  receivedMessages: 'received messages',
  notes: 'notes',
  outgoingMessages: 'outgoing messages',
  paymentEvents: 'payment events',
  savedViews: 'saved views',
  erased: 'erased',
  word: 'erase',
  typeWord: 'Type “{word}”',
  typeToConfirm: 'type “{word}” to confirm the erasure',
  erasePermanently: 'Erase permanently',
  // Progress
  personErased: 'Person erased',
  allErased: 'All data found about this person has been erased.',
  back: 'Back',
  searching: 'Searching…',
  erasing: 'Erasing…',
  readOnly: 'This instance is read-only. The search or erasure will continue when writes are enabled again.',
  refreshes: 'This page refreshes automatically. You can leave it and come back later.',
  rowsSearched: 'Rows searched',
  refreshPage: 'Refresh page',
  cancelSearch: 'Cancel search',
  searchCanceled: 'Search canceled.',
  // Errors
  about: '{field}: {message}',
  tooManyActive:
    'this organization already has {max} searches or erasures in progress. Wait until one finishes.',
  expired: 'this search has expired. Start it again.',
  alreadyStarted: 'this search has expired, or its erasure has already started',
  valueTooLarge: 'a stored value is too large to search',
  tooManyTermsFound: 'the search would need more than {max} search terms. Select fewer records.',
  tooManyLines: 'at most {max} lines can select records, but {number} were entered',
  tooManyTerms: 'at most {max} search terms are allowed, but there are {number}',
  lineTooLong: 'a line that selects records can have at most {max} characters',
  nothingEntered:
    'specify the person\'s records as "resource?filter=value", or a search term unique to the person',
  invalidSelection:
    '"{selection}" is not a resource and filter in the form "resource?filter=value". Resources: {resources}.',
  unknownFilter: '"{filter}" is not a filter of {resource}. Filters: {filters}.',
  tooManyRecords: 'the selection has more than {max} records. Select only the records of one person.',
  termTooShort: '"{text}" is too short. Enter at least {min} characters',
  termTooLong: '"{text}" is too long. Enter at most {max} characters',
  tooManyDependents: 'more than {max} records would be deleted with {record}',
} as const satisfies Catalogue;
